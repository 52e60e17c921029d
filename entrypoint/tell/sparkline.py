"""Sparklines: a curve, or a share of a whole, in one line of text."""

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_EIGHT = 8


def sparkline(values: Sequence[float], *, high: float, width: int = 60) -> str:
    """Return a curve between zero and ``high``, one character per value.

    More values than there is room for are taken together, and the *lowest* of each group is shown: what matters of
    memory is how little was left.

    Args:
        values: The curve, oldest first; empty gives an empty text.
        high: What the highest level stands for; values beyond it, or below zero, are shown at the border.
        width: Most characters to use.
    """
    count = min(width, len(values))
    lowest = [min(values[len(values) * i // count : len(values) * (i + 1) // count]) for i in range(count)]
    return "".join(_LEVELS[_level(value, high)] for value in lowest)


def bar(share: float, *, width: int = 24) -> str:
    """Return a bar as long as a share of the width, in eighths of a character; what is not nothing is seen.

    Args:
        share: Between 0 and 1; what is beyond is shown at the border.
        width: Characters of a whole.
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * _EIGHT)
    if share > 0:
        eighths = max(eighths, 1)
    return "█" * (eighths // _EIGHT) + _EIGHTHS[eighths % _EIGHT].strip()


def _level(value: float, high: float) -> int:
    if high <= 0:
        return 0
    return min(max(int(value / high * len(_LEVELS)), 0), len(_LEVELS) - 1)
