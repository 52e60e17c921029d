"""Settings given as text: environment variables and options of the command line."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from json import JSONDecodeError
from typing import NoReturn

from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from entrypoint.settings import catalogue
from entrypoint.settings.files import CONFIG_VARIABLE
from entrypoint.settings.origin import PREFIX, KeyPath, Layer, Origin, dotted
from entrypoint.settings.problems import Problem
from entrypoint.settings.reading import Reading, read_tree, unknown
from entrypoint.settings.schema import Settings

TOKEN_VARIABLE = "SUPERVISE_TOKEN"  # noqa: S105 - the name of a variable, no token
"""Environment variable with the token of a run that is asked or drained."""

IMAGE_VARIABLE = "SUPERVISE_IMAGE"
"""Environment variable that the packaged EDFs take their image from."""

NOT_SETTINGS = frozenset({CONFIG_VARIABLE, TOKEN_VARIABLE, IMAGE_VARIABLE})
"""Variables with our prefix that are no settings."""

_MOST_KEYS = 3
_WORD = re.compile(r"[^\s,]+")
"""One item of a list that is written as people do, with commas or blanks; JSON is understood as well."""


class _TextSettings(Settings, BaseSettings):
    """The schema as pydantic-settings wants it, to read one text at a time."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)


def read_environment(environ: Mapping[str, str]) -> Reading:
    """Read the ``SUPERVISE_…`` variables; a variable that names a deeper setting beats one that names its table."""
    names = sorted(name for name in environ if name.startswith(PREFIX) and name not in NOT_SETTINGS)
    return _strongest_last(
        _read(_path_of_variable(name), environ[name], Origin(Layer.ENVIRONMENT, name)) for name in names
    )


def read_command_line(overrides: Sequence[tuple[str, str]]) -> Reading:
    """Read the ``--dotted.key value`` options; of a repeated one the last counts."""
    return _strongest_last(
        _read(tuple(name.split(".", _MOST_KEYS - 1)), text, Origin(Layer.COMMAND_LINE, f"--{name}"))
        for name, text in overrides
    )


def _path_of_variable(name: str) -> KeyPath:
    keys = name.removeprefix(PREFIX).split("__", _MOST_KEYS - 1)
    table, last = tuple(key.lower() for key in keys[:2]), tuple(keys[2:])
    # Names of the engine's variables keep their case; its flags are lower case, as is every setting.
    return (*table, *(last if table == ("engine", "env") else (key.lower() for key in last)))


def _strongest_last(readings: Iterable[Reading]) -> Reading:
    found = tuple(readings)
    given = {one.path: one for reading in found for one in reading.given}
    return Reading(tuple(given.values()), tuple(problem for reading in found for problem in reading.problems))


def _read(path: KeyPath, text: str, origin: Origin) -> Reading:
    if not catalogue.is_known(path):
        return Reading(problems=(unknown(path, text, origin),))
    if catalogue.in_open_table(path):
        value = text if path[:2] == ("engine", "env") else _flag_value(text)
        return read_tree({path[0]: {path[1]: {path[2]: value}}}, lambda _: origin)
    if catalogue.is_list(path) and not text.lstrip().startswith("["):
        return read_tree({path[0]: {path[1]: _WORD.findall(text)}}, lambda _: origin)
    source = EnvSettingsSource(_TextSettings)
    source.env_vars = {(PREFIX + "__".join(path)).lower(): text}
    try:
        tree = source()
    except SettingsError as error:
        problem = _not_json(path, error, origin)
    else:
        return read_tree(tree, lambda _: origin)
    return Reading(problems=(problem,))


def _flag_value(text: str) -> object:
    """Return what a flag's text means: JSON where that loses nothing, such as true, 8192 or a list, else the text."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, list | dict):
        return value
    # "1.10" or "1e3" may be a name or a version: as a number it would be written differently.
    return value if isinstance(value, int | float) and json.dumps(value) == text else text


def _no_number(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python reads although JSON has neither."""
    raise ValueError(name)


def _not_json(path: KeyPath, error: SettingsError, origin: Origin) -> Problem:
    cause = error.__cause__
    place = f" (at character {cause.pos + 1})" if isinstance(cause, JSONDecodeError) else ""
    field = catalogue.field_at(path)
    is_table = field is None or catalogue.is_open_table(field)
    example = '{"key": "value"}' if is_table else '["one", "two"] or one,two'
    return Problem(
        origin.source,
        f"{dotted(path)}: expected JSON, got text that is none{place}",
        f"Write the value as {'JSON, such as ' if is_table else ''}{example}.",
    )
