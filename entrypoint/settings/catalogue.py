"""The catalogue: every setting of the schema by its path, and the nearest one to a name that is none."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from entrypoint.settings.origin import KeyPath, dotted
from entrypoint.settings.schema import Section, Settings, alternatives

_MOST_SUGGESTIONS = 3
_FIELD_DEPTH = 2


@cache
def sections() -> Mapping[str, type[Section]]:
    """Return the tables of the settings by name, in the schema's order."""
    return MappingProxyType(
        {
            name: field.annotation
            for name, field in Settings.model_fields.items()
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
        }
    )


@cache
def fields() -> Mapping[KeyPath, FieldInfo]:
    """Return every setting by its path, in the schema's order; an open table counts as one setting."""
    found: dict[KeyPath, FieldInfo] = {}
    for name, field in Settings.model_fields.items():
        if (section := sections().get(name)) is None:
            found[(name,)] = field
        else:
            found |= {(name, key): inner for key, inner in section.model_fields.items()}
    return MappingProxyType(found)


def is_open_table(field: FieldInfo) -> bool:
    """Say whether a setting is a table whose keys the user chooses, such as ``engine.args``."""
    return get_origin(field.annotation) is dict


def is_list(path: KeyPath) -> bool:
    """Say whether the setting at a path is a list of texts, such as ``rules.ignore``."""
    field = fields().get(path)
    return field is not None and get_origin(field.annotation) is frozenset


def is_secret(field: FieldInfo) -> bool:
    """Say whether a setting's value must never be shown."""
    return SecretStr in alternatives(field.annotation)


def field_at(path: KeyPath) -> FieldInfo | None:
    """Return the setting at a path, or the open table that a path leads into, or nothing."""
    if (field := fields().get(path)) is not None:
        return field
    table = fields().get(path[:_FIELD_DEPTH])
    return table if table is not None and is_open_table(table) and len(path) == _FIELD_DEPTH + 1 else None


def is_known(path: KeyPath) -> bool:
    """Say whether a path leads to a setting or to a whole section."""
    return field_at(path) is not None or (len(path) == 1 and path[0] in sections())


def value_annotation(path: KeyPath) -> tuple[Any, tuple[Any, ...]]:
    """Return the type of the value at a known path, and the constraints beside it."""
    if (field := fields().get(path)) is not None:
        return field.annotation, tuple(field.metadata)
    return get_args(fields()[path[:_FIELD_DEPTH]].annotation)[1], ()


def in_open_table(path: KeyPath) -> bool:
    """Say whether a path names a key that the user chose inside an open table."""
    return path not in fields() and field_at(path) is not None


def canonical(path: KeyPath) -> KeyPath:
    """Return the one path of a setting: flags of the engine are spelled with dashes, as on its command line."""
    if path[:_FIELD_DEPTH] == ("engine", "args") and in_open_table(path):
        return (*path[:_FIELD_DEPTH], path[_FIELD_DEPTH].replace("_", "-"))
    return path


def nearest(path: KeyPath) -> tuple[KeyPath, ...]:
    """Return the settings that an unknown path most likely means, the likeliest first.

    The same key in another table is a misplaced setting; anything else is taken for a typing mistake.
    """
    known = {dotted(name): name for name in (*fields(), *((section,) for section in sections()))}
    misplaced = [name for name in known.values() if name[-1] == path[-1]]
    if misplaced:
        return tuple(misplaced[:_MOST_SUGGESTIONS])
    return tuple(known[name] for name in get_close_matches(dotted(path), known, n=1, cutoff=0.7))
