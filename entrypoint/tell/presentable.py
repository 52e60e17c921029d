"""Presentable: a record as it may be shown, without secrets and without characters that act instead of being read.

Secrets are masked before anything else is done to a text: once it is escaped or cut, a secret in it is another text.
They are masked once more behind the removal of colours, which can put the halves of one together.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from entrypoint.readable import plain
from entrypoint.settings.redaction import Masker

LONGEST_TEXT = 8192
"""Characters of one text that are looked at; what is longer is cut, and says so."""

Record = TypeVar("Record")


def presentable(record: Record, masker: Masker) -> Record:
    """Return a dataclass with every text in it changed, at any depth.

    Args:
        record: The dataclass.
        masker: Removes secrets.
    """
    changed: Record = _changed(record, masker)
    return changed


def presentable_text(text: str, masker: Masker) -> str:
    """Return one text as it may be shown."""
    cut = ""
    if len(text) > LONGEST_TEXT:
        cut = f"…[{len(text)} characters]"
        text = text[:LONGEST_TEXT]
    data = text.encode("utf-8", "surrogatepass")
    if cut:
        data = masker.without_begun_secret(data)
    masked = masker.mask_bytes(data).decode("utf-8", "surrogatepass")
    cleaned = plain(masked)
    return (cleaned if cleaned == masked else masker.mask_text(cleaned)) + cut


def _changed(value: Any, masker: Masker) -> Any:
    match value:
        case str() if not isinstance(value, Enum):
            changed: Any = presentable_text(value, masker)
        case Path():
            changed = Path(presentable_text(str(value), masker))
        case Mapping():
            changed = masker.mask_value({_changed(key, masker): _changed(item, masker) for key, item in value.items()})
        case list() | tuple() | set() | frozenset():
            changed = tuple(_changed(item, masker) for item in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            changed = replace(
                value, **{each.name: _changed(getattr(value, each.name), masker) for each in fields(value)}
            )
        case _:
            changed = value
    return changed
