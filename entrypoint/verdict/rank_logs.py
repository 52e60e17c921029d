"""Which rank's log a file is, and which lines of a file are which rank's."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_PACKED = re.compile(r"\.(?:gz|bz2|xz)$")
_OLDER = re.compile(r"\.(\d+)$")
_NUMBER = re.compile(r"\d+")
_NAMED = re.compile(r"(?:server|rank|node|task|log|out|err)[-_.]?(\d+)(?!.*\d)")
_LABEL = re.compile(rb"(?m)^[ ]*(\d+): ")
LABELLED_SHARE = 0.9
"""Share of lines with a label from which on a file is taken for the output of ``srun --label``."""


@dataclass(frozen=True, slots=True)
class RankLog:
    """The log of one rank.

    Attributes:
        rank: Its number.
        names: Its files, the older parts first.
    """

    rank: int
    names: tuple[str, ...]


def rank_logs(names: Sequence[str]) -> tuple[RankLog, ...]:
    """Return which rank each file belongs to, by rank.

    The one number in which the names differ is the rank; a single file tells it by ``server-3.log`` and the like. Names
    that tell nothing count in their order. ``server-0.log.1`` is an older part of ``server-0.log``.
    """
    parts: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        base, age = _base(name)
        parts.setdefault(base, []).append((-age, name))
    ranks = _ranks(list(parts))
    return tuple(
        RankLog(rank, tuple(name for _, name in sorted(parts[base])))
        for rank, base in sorted(zip(ranks, parts, strict=True))
    )


def _base(name: str) -> tuple[str, int]:
    """Return a file's name without its compression and its age, and that age: 0 for the newest part."""
    plain = _PACKED.sub("", name)
    older = _OLDER.search(plain)
    if older is None or not PurePath(plain[: older.start()]).suffix:
        return plain, 0
    return plain[: older.start()], int(older[1])


def _ranks(bases: Sequence[str]) -> list[int]:
    if len(bases) == 1:
        named = _NAMED.search(PurePath(bases[0]).name)
        return [int(named[1]) if named else 0]
    numbers = [[int(number) for number in _NUMBER.findall(base)] for base in bases]
    same_shape = len({_NUMBER.sub("#", base) for base in bases}) == 1
    if same_shape:
        differing = [place for place in zip(*numbers, strict=True) if len(set(place)) == len(bases)]
        if differing:
            return list(differing[-1])
    return list(range(len(bases)))


def is_labelled(block: bytes) -> bool:
    """Return whether lines carry the labels of several tasks, as ``srun --label`` prints them."""
    labels = _LABEL.findall(block)
    return len(set(labels)) > 1 and len(labels) >= LABELLED_SHARE * block.count(b"\n")


def by_label(block: bytes) -> Iterator[tuple[int | None, bytes]]:
    """Yield each task's lines of a block, without their labels; None stands for lines that have none."""
    lines: dict[int | None, list[bytes]] = {}
    for line in block.splitlines(keepends=True):
        label = _LABEL.match(line)
        lines.setdefault(int(label[1]) if label else None, []).append(line[label.end() :] if label else line)
    yield from ((rank, b"".join(found)) for rank, found in lines.items())


def expected_files(names: Iterable[str]) -> list[str]:
    """Return names in the order in which people count: ``server-2`` before ``server-10``."""
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
