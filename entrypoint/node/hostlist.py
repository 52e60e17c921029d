"""Host lists as Slurm writes them, expanded in Slurm's own order.

The order is that of ranks, so that nothing here sorts. A width of zeros is the lower bound's; commas inside brackets
separate ranges; several bracket groups multiply, the left-most slowest; text may follow a bracket.
"""

import re
from collections.abc import Iterator
from itertools import product

MOST_HOSTS = 100_000
_PART = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class HostListError(ValueError):
    """A text is no host list; the message says why."""


def expand(text: str) -> tuple[str, ...]:
    """Return the names that a host list stands for.

    Args:
        text: The list, such as ``nid[000999-001001],gpu07``.

    Raises:
        HostListError: It is none, or stands for more names than any cluster has.
    """
    names: list[str] = []
    for part in _parts(text):
        for name in _expanded(part, text):
            names.append(name)
            if len(names) > MOST_HOSTS:
                raise HostListError(f"{text!r} stands for more than {MOST_HOSTS} hosts")
    return tuple(names)


def _parts(text: str) -> Iterator[str]:
    """Yield what stands between the commas outside of brackets."""
    place = 0
    while place < len(text):
        found = _PART.match(text, place)
        end = found.end() if found else place
        if end == place or (end < len(text) and text[end] != ","):
            raise HostListError(f"{text!r} is no list of hosts: {text[end:]!r} cannot be read")
        yield text[place:end]
        place = end + 1
    if text.endswith(",") or not text:
        raise HostListError(f"{text!r} is no list of hosts: a name is missing")


def _expanded(part: str, text: str) -> Iterator[str]:
    pieces = _GROUP.split(part)
    fixed, groups = pieces[0::2], [list(_numbers(group, text)) for group in pieces[1::2]]
    for numbers in product(*groups):
        yield "".join(word for pair in zip(fixed, (*numbers, ""), strict=True) for word in pair)


def _numbers(group: str, text: str) -> Iterator[str]:
    for piece in group.split(","):
        bounds = _RANGE.fullmatch(piece)
        if bounds is None:
            raise HostListError(f"{text!r} is no list of hosts: [{group}] is no list of numbers")
        low, high = bounds[1], bounds[2] or bounds[1]
        if int(high) < int(low) or int(high) - int(low) >= MOST_HOSTS:
            raise HostListError(f"{text!r} is no list of hosts: {piece} is no range")
        yield from (str(number).zfill(len(low)) for number in range(int(low), int(high) + 1))
