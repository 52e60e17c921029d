"""Line numbers of keys in a TOML file, which no TOML parser hands out.

This reads the plain forms only, ``[table]`` and ``key = value`` with a line each. What it cannot place for certain it
leaves out: a message without a line is better than one with a wrong line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from entrypoint.settings.origin import KeyPath

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]\]?[ \t]*(?:#.*)?\r?$")
_ASSIGNMENT = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=(.*)")
_FENCE = re.compile("\"\"\"|'''")


@dataclass(frozen=True, slots=True)
class Lines:
    """Where the keys of one file are.

    Attributes:
        keys: The line that sets each key, in their order; none where two lines seem to.
        tables: The line on which each table is first entered.
    """

    keys: Mapping[KeyPath, int | None]
    tables: Mapping[KeyPath, int]

    def of(self, path: KeyPath) -> int | None:
        """Return the line that sets a key, or that sets the inline table around it, if that is certain."""
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((self.keys[key] for key in around if key in self.keys), self.tables.get(path))


def locate(text: str) -> Lines:
    """Find the lines of the keys of a TOML text, which need not be valid."""
    keys: dict[KeyPath, int | None] = {}
    tables: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in _outside_long_strings(text):
        if header := _HEADER.match(line):
            table = _keys(header[1])
            _enter(tables, table, number)
        elif found := _ASSIGNMENT.match(line):
            path = (*table, *_keys(found[1]))
            _enter(tables, path[:-1], number)
            # TOML has every key once: what seems to be set twice has been misread.
            keys[path] = None if path in keys else number
    return Lines(keys, tables)


def _enter(tables: dict[KeyPath, int], path: KeyPath, line: int) -> None:
    """Note the line for a table and those around it, unless they were entered before."""
    for length in range(1, len(path) + 1):
        tables.setdefault(path[:length], line)


def _outside_long_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that do not begin inside a string of many lines."""
    fence: str | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if fence is None:
            yield number, line
        if not line.lstrip(" \t").startswith("#") or fence is not None:
            fence = _open_fence(line, fence)


def _open_fence(line: str, fence: str | None) -> str | None:
    """Return the quotes of the long string that is open after a line, given those open before it."""
    for quotes in _FENCE.findall(line):
        if fence is None:
            fence = quotes
        elif quotes == fence:
            fence = None
    return fence


def _keys(text: str) -> KeyPath:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, text))
