"""The excerpt: what a page shows of a log, around the line that tells and at the end."""

from collections.abc import Sequence
from dataclasses import dataclass

from entrypoint.readable import abbreviated

LINES_SHOWN = 20
"""Lines at the end of the log."""
LINES_AROUND = 8
"""Lines before and after the one that tells."""
LONGEST_LINE = 500


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log.

    Attributes:
        number: Its number; None where unknown.
        text: The line.
        is_root: It is the one that tells.
        skipped: Lines that are left out before it.
    """

    number: int | None
    text: str
    is_root: bool = False
    skipped: int = 0


def excerpt(tail: Sequence[str], *, lines: int | None, root: int | None) -> tuple[LogLine, ...]:
    """Return the lines around the one that tells, and the last ones.

    Args:
        tail: The last lines of the log, oldest first.
        lines: How many lines the log has; None where unknown, and then no line has a number.
        root: Number of the line that tells, from 1; it may lie before those at hand.
    """
    first = None if lines is None else lines - len(tail) + 1
    place = None if first is None or root is None else root - first
    places = set(range(max(len(tail) - LINES_SHOWN, 0), len(tail)))
    if place is not None and 0 <= place < len(tail):
        places |= set(range(max(place - LINES_AROUND, 0), min(place + LINES_AROUND + 1, len(tail))))
    shown: list[LogLine] = []
    before = min(places, default=0) - 1
    for at in sorted(places):
        number = None if first is None else first + at
        shown.append(LogLine(number, as_line(tail[at]), is_root=at == place, skipped=at - before - 1))
        before = at
    return tuple(shown)


def as_line(text: str) -> str:
    """Return a text as one line that a page can hold."""
    return abbreviated(text.replace("\n", " ").rstrip(), LONGEST_LINE)
