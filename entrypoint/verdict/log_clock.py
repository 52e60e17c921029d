"""The clock of a log: when its lines were printed, by the time stamps among them."""

import re

from entrypoint.engine.log_line import statements, unix_s

_STAMP = b"[20"
_DAY = re.compile(rb"\[20\d\d-\d\d-\d\d ")
"""What a stamp begins with; a prompt's tokens, such as ``[20, 4]``, do not."""
_LINE_BYTES = 4096
"""How far from the beginning of a line a stamp is looked for: a bar without an end may stand before it."""


class LogClock:
    """Follows the time stamps of a text that comes in pieces.

    Attributes:
        first_s: Unix time of the first stamp; None while there is none.
        last_s: Unix time of the last one.
    """

    def __init__(self) -> None:
        self.first_s: float | None = None
        self.last_s: float | None = None

    def pass_by(self, lines: bytes) -> None:
        """Take the next lines."""
        if self.first_s is None:
            self.first_s = _first(lines)
        if self.first_s is not None:
            self.last_s = self.at(lines, len(lines))

    def at(self, lines: bytes, end: int) -> float | None:
        """Return the last stamp up to a place in the next lines, or of those that have passed by."""
        position = lines.rfind(_STAMP, 0, end)
        while position >= 0:
            before = position
            if _DAY.match(lines, position):
                before = _begin_of_line(lines, position)
                found = _time_of(lines, before)
                if found is not None:
                    return found
            position = lines.rfind(_STAMP, 0, before)
        return self.last_s


def _first(lines: bytes) -> float | None:
    stamp = _DAY.search(lines)
    while stamp is not None:
        found = _time_of(lines, _begin_of_line(lines, stamp.start()))
        if found is not None:
            return found
        stamp = _DAY.search(lines, _end_of_line(lines, stamp.end()))
    return None


def _begin_of_line(lines: bytes, position: int) -> int:
    newline = lines.rfind(b"\n", 0, position) + 1
    return lines.rfind(b"\r", newline, position) + 1 or newline


def _end_of_line(lines: bytes, position: int) -> int:
    newline = lines.find(b"\n", position)
    newline = len(lines) if newline < 0 else newline
    redraw = lines.find(b"\r", position, newline)
    return newline if redraw < 0 else redraw


def _time_of(lines: bytes, begin: int) -> float | None:
    end = min(begin + _LINE_BYTES, _end_of_line(lines, begin))
    text = lines[begin:end].decode("utf-8", "replace")
    *_, statement = statements(text)
    if statement.time is None or statement.day is not None:
        return None
    return unix_s(statement.time)
