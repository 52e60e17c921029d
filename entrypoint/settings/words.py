"""Words: types and values of settings as a person would say them."""

import datetime as dt
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from entrypoint.settings import catalogue
from entrypoint.settings.origin import KeyPath
from entrypoint.settings.schema import alternatives

_PLAIN = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    SecretStr: "text that is kept secret",
}
_COLLECTIONS = {dict: "a table", list: "a list", frozenset: "a list of text"}
_UNITS = {"_s": "in seconds", "_bytes": "in bytes", "_gib": "in GiB", "_tokens": "in tokens"}
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a truth value"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (Mapping, "a table"),
    ((list, tuple), "a list"),
    ((dt.date, dt.time), "a date or time"),
)
_SHOWABLE_BITS = 64

_short = reprlib.Repr()
_short.maxstring = 60
_short.maxother = 60
_short.maxlevel = 2


def expected(path: KeyPath) -> str:
    """Return what the setting at a known path may be, such as ``a whole number from 1 to 65535``."""
    annotation, metadata = catalogue.value_annotation(path)
    words = [_type(kind, metadata) for kind in alternatives(annotation) if kind is not NoneType]
    return either(words)


def either(words: Sequence[str]) -> str:
    """Return alternatives as an enumeration that ends in *or*."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def unit(path: KeyPath) -> str:
    """Return the unit that a setting's name ends in, in words, or nothing."""
    return next((words for suffix, words in _UNITS.items() if path[-1].endswith(suffix)), "")


def given(path: KeyPath, value: object) -> str:
    """Return a value as it may be shown in a message about the setting at a known path.

    Secrets are not shown at all. Flags and variables of the engine may be secrets too: only their kind is shown.
    """
    field = catalogue.field_at(path)
    if field is not None and catalogue.is_secret(field):
        return "a value that is not shown"
    if field is not None and catalogue.is_open_table(field):
        return kind(value)
    return shown(value)


def shown(value: object) -> str:
    """Return a value that is no secret, shortened, as it is written in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Python refuses to print integers of many thousand digits.
        return str(value) if value.bit_length() <= _SHOWABLE_BITS else f"a whole number of {value.bit_length()} bits"
    if isinstance(value, str | float):
        return _short.repr(value)
    return kind(value)


def kind(value: object) -> str:
    """Return what sort of value this is, without showing it."""
    return next((words for types, words in _KINDS if isinstance(value, types)), "nothing")


def _type(annotation: Any, metadata: tuple[Any, ...]) -> str:
    if get_origin(annotation) is Annotated:
        inner, *constraints = get_args(annotation)
        return _type(inner, _flat(constraints))
    if get_origin(annotation) is Literal:
        return either(["'' (left out)" if value == "" else repr(value) for value in get_args(annotation)])
    if (words := _COLLECTIONS.get(get_origin(annotation) or annotation)) is not None:
        return words
    return f"{_PLAIN[annotation]}{_range(metadata)}"


def _flat(constraints: list[Any]) -> tuple[Any, ...]:
    """Return the plain constraints: pydantic keeps those inside a union wrapped in a field."""
    return tuple(
        plain for outer in constraints for plain in (outer.metadata if isinstance(outer, FieldInfo) else [outer])
    )


def _range(metadata: tuple[Any, ...]) -> str:
    least = next((item.ge for item in metadata if isinstance(item, Ge)), None)
    above = next((item.gt for item in metadata if isinstance(item, Gt)), None)
    most = next((item.le for item in metadata if isinstance(item, Le)), None)
    if least is not None and most is not None:
        return f" from {least} to {most}"
    bounds = [
        *([] if least is None else [f"of at least {least}"]),
        *([] if above is None else [f"above {above}"]),
        *([] if most is None else [f"at most {most}"]),
    ]
    return f" {' and '.join(bounds)}" if bounds else ""
