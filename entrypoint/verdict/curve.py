"""The curve: points of a long time in little room, without losing its lows."""

import itertools
from collections.abc import Sequence

from entrypoint.verdict.evidence import MemoryPoint

RECENT_POINTS = 600
OLD_POINTS = 300


class Curve:
    """Memory since the beginning: the last minutes as they were seen, what came before ever more coarsely."""

    def __init__(self) -> None:
        self._points: list[MemoryPoint] = []

    def add(self, point: MemoryPoint) -> None:
        """Take in the next point."""
        self._points.append(point)
        if len(self._points) > 2 * RECENT_POINTS:
            old, recent = self._points[:-RECENT_POINTS], self._points[-RECENT_POINTS:]
            self._points = [*thinned(old, OLD_POINTS), *recent]

    def points(self, at_most: int, until_unix_s: float) -> tuple[MemoryPoint, ...]:
        """Return the curve up to a moment.

        Args:
            at_most: How many points.
            until_unix_s: The moment.
        """
        return thinned([point for point in self._points if point.unix_s <= until_unix_s], at_most)


def thinned(points: Sequence[MemoryPoint], at_most: int) -> tuple[MemoryPoint, ...]:
    """Return at most so many points: of each stretch the one with the least headroom, and always the last one."""
    if len(points) <= at_most:
        return tuple(points)
    *before, last = points
    count = at_most - 1
    edges = [number * len(before) // count for number in range(count + 1)]
    stretches = (before[begin:end] for begin, end in itertools.pairwise(edges))
    return (*(min(stretch, key=lambda point: point.headroom_bytes) for stretch in stretches), last)
