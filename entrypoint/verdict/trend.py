"""The trend: when headroom will reach the floor, told early and only of a fall that goes on."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

WINDOW_S = 30.0
"""A fall has to go on for so long before it is believed."""
LOOK_BACK_S = 15.0
"""The engine's main process outlives a scheduler that was killed by some seconds, until it finds out."""
LEAST_POINTS = 6
"""Two for each third of the window."""
_SIXTHS = 6
_COVERED = 0.9
"""Share of the window that has to be known."""
_FALLS_NEED = 3
"""Looks between which there are two falls."""


class Headroom(NamedTuple):
    """What could still be had at one moment.

    Attributes:
        at_s: When, on any clock that runs evenly.
        bytes: How much.
    """

    at_s: float
    bytes: int


def seconds_to_floor(points: Sequence[Headroom], floor_bytes: int, window_s: float = WINDOW_S) -> float | None:
    """Return in how many seconds the floor is reached if things go on as they do; None where they need not.

    The window is cut into thirds, and the medians of their points are compared: headroom has to have fallen from the
    first third to the second, from there to the last, and within the last as well, and the gentlest of these falls
    counts. One jump, such as a KV pool that is allocated, does not show in all of them; a spike moves no median. A fall
    that slows down, as loading does, is taken to go on slowing down: it need not reach the floor at all. At the floor
    or below it the answer is 0, whatever the trend.

    Args:
        points: What was seen, oldest first.
        floor_bytes: The floor.
        window_s: How far to look back; above 0, and at least six points have to lie in it, spread over it.
    """
    if not points:
        return None
    last = points[-1]
    if last.bytes <= floor_bytes:
        return 0.0
    begin_s = last.at_s - window_s
    recent = [point for point in points if point.at_s >= begin_s]
    if len(recent) < LEAST_POINTS or last.at_s - recent[0].at_s < _COVERED * window_s:
        return None
    sixths: list[list[Headroom]] = [[] for _ in range(_SIXTHS)]
    for point in recent:
        sixths[min(_SIXTHS - 1, int((point.at_s - begin_s) / window_s * _SIXTHS))].append(point)
    if not all(sixths):
        return None
    first, second, third = (_middle(sixths[begin] + sixths[begin + 1]) for begin in (0, 2, 4))
    before, after = _fall(first, second), _fall(second, third)
    gentlest = min(before, after, _fall(_middle(sixths[-2]), _middle(sixths[-1])))
    left_bytes = last.bytes - floor_bytes
    if gentlest <= 0 or _still_to_fall(before, after, window_s / 3) < left_bytes:
        return None
    return left_bytes / gentlest


def ended_at_floor(points: Sequence[Headroom], floor_bytes: int, ended_s: float, look_back_s: float) -> bool:
    """Return whether memory had run out when something ended, as far as the looks before that can tell.

    It had if one of the last looks saw headroom at the floor: the process that ended last may have outlived the victim
    by seconds. It also had if the fall over the last three looks, the gentler one of two, gone on until the end, had
    reached the floor: at gigabytes a second, the second between two looks is long.

    Args:
        points: What was seen, oldest first. What was seen after the end says nothing and is left out of account, since
            the memory of what ended is free again.
        floor_bytes: The floor.
        ended_s: When it ended, on the same clock.
        look_back_s: How long before the end a look may lie to be one of the last.
    """
    last = [point for point in points if ended_s - look_back_s <= point.at_s <= ended_s]
    if any(point.bytes <= floor_bytes for point in last):
        return True
    if len(last) < _FALLS_NEED:
        return False
    first, second, third = last[-_FALLS_NEED:]
    fall_bytes_per_s = min(_fall(first, second), _fall(second, third))
    return third.bytes - fall_bytes_per_s * (ended_s - third.at_s) <= floor_bytes


def _middle(points: Sequence[Headroom]) -> Headroom:
    return Headroom(
        statistics.median(point.at_s for point in points), int(statistics.median(point.bytes for point in points))
    )


def _still_to_fall(before: float, after: float, step_s: float) -> float:
    """Return how much there is still to fall where each step falls as much less than the one before as the last did."""
    if after >= before:
        return math.inf
    ratio = after / before
    return after * step_s * ratio / (1 - ratio)


def _fall(before: Headroom, after: Headroom) -> float:
    """Return how fast it fell, in bytes a second; negative where it rose."""
    lasted_s = after.at_s - before.at_s
    return (before.bytes - after.bytes) / lasted_s if lasted_s > 0 else 0.0
