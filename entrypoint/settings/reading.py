"""Readings: what one source of settings says, as single values with their origins."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from entrypoint.settings import catalogue, words
from entrypoint.settings.origin import KeyPath, Origin, dotted, spelled
from entrypoint.settings.problems import Problem

_VARIABLES = ("engine", "env")


@dataclass(frozen=True, slots=True)
class Given:
    """One value that a source sets.

    Attributes:
        path: The setting, in the one spelling that all layers share.
        value: What it is set to, not yet validated.
        origin: Where that was done.
    """

    path: KeyPath
    value: object
    origin: Origin


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source says, and what is wrong with it."""

    given: tuple[Given, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_tree(tree: Mapping[str, object], origin_of: Callable[[KeyPath], Origin]) -> Reading:
    """Take a tree of tables apart into single settings.

    Args:
        tree: Tables and values under the names that users write.
        origin_of: Says for the path of a key, in its original spelling, where it was set.

    Returns:
        The known settings, and a problem for each key that is unknown or set twice.
    """
    given: dict[KeyPath, Given] = {}
    problems: list[Problem] = []
    for path, value in _leaves(tree, ()):
        name, origin = catalogue.canonical(path), origin_of(path)
        if catalogue.field_at(path) is None:
            problems.append(unknown(path, value, origin))
        elif _wants_table(path):
            problems.append(wrong_type(path, value, origin))
        elif (impossible := _impossible(path, value)) is not None:
            problems.append(Problem(origin.source, f"{dotted(path)}: {impossible[0]}", impossible[1]))
        elif name in given:
            problems.append(_twice(name, origin, given[name].origin))
        else:
            given[name] = Given(name, value, origin)
    return Reading(tuple(given.values()), tuple(problems))


def _impossible(path: KeyPath, value: object) -> tuple[str, str] | None:
    """Return what the operating system could not hand on, and what to do; None where it can."""
    if path[:2] == _VARIABLES and (not path[-1] or "=" in path[-1]):
        return "no environment variable can have this name", "Write the name as the key and the rest as its value."
    if any("\0" in text for text in (*path, *_texts(value))):
        return "the text holds a NUL character, where every path and argument would end", "Remove the \\u0000."
    return None


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a value, however deep."""
    left = [value]
    while left:
        inner = left.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, Mapping):
            left += [*inner.keys(), *inner.values()]
        elif isinstance(inner, list):
            left += inner


def unknown(path: KeyPath, value: object, origin: Origin) -> Problem:
    """Return the problem of a key that is no setting, or of a section that is no table."""
    if _is_section(path):
        return Problem(
            origin.source,
            f"{dotted(path)}: expected a table, got {words.kind(value)}",
            f"{dotted(path)} is a table; set one of its keys, such as {_first_key(path[0])}.",
        )
    similar = [spelled(origin.layer, name) for name in catalogue.nearest(path)]
    advice = [f"Did you mean {words.either(similar)}?"] if similar else []
    if path[:-1] == ("engine",):
        advice.append("Any other flag of SGLang belongs in engine.args, any other variable in engine.env.")
    return Problem(
        origin.source,
        f"{dotted(path)}: there is no such setting",
        " ".join(advice) or "Remove it, or look up its name in the reference of settings.",
    )


def wrong_type(path: KeyPath, value: object, origin: Origin) -> Problem:
    """Return the problem of a value that its setting cannot take."""
    field = catalogue.field_at(path)
    meaning = field.description if field is not None else None
    return Problem(
        origin.source,
        f"{dotted(path)}: expected {words.expected(path)}, got {words.given(path, value)}",
        f"What {dotted(path)} means: {meaning}",
    )


def _leaves(tree: Mapping[str, object], above: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    """Yield what is set, going down into the tables of the schema only: a flag's own table is one value."""
    for key, value in tree.items():
        path = (*above, key)
        if isinstance(value, Mapping) and (_is_section(path) or _wants_table(path)):
            yield from _leaves(value, path)
        else:
            yield path, value


def _is_section(path: KeyPath) -> bool:
    return len(path) == 1 and path[0] in catalogue.sections()


def _wants_table(path: KeyPath) -> bool:
    field = catalogue.fields().get(path)
    return field is not None and catalogue.is_open_table(field)


def _first_key(section: str) -> str:
    return next(dotted(path) for path in catalogue.fields() if path[0] == section)


def _twice(path: KeyPath, second: Origin, first: Origin) -> Problem:
    return Problem(
        second.source,
        f"{dotted(path)}: set a second time, after {first.source}",
        "Keep one of the two; in engine.args, '_' and '-' are the same.",
    )
