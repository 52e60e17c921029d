"""Which rank's log a file is, and which lines of a file are which rank's."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

_PACKED = re.compile(r"\.(?:gz|bz2|xz)$")
_OLDER = re.compile(r"(?:\.(?P<age>\d{1,3})|[.-](?P<day>\d{4}-?\d\d-?\d\d)[\d.-]*)$")
_NUMBER = re.compile(r"\d+")
_NAMED = re.compile(r"(?:server|rank|node|task|log|out|err)[-_.]?(\d+)(?!.*\d)")
_NAMELESS = ("/dev/", "/proc/")
"""Where the names of pipes stand that a shell made; their numbers tell nothing."""
_LABEL = re.compile(rb"(?m)^[ ]*(\d+): ")
_TASK = re.compile(rb"[ ]*(\d{1,6})")
_STAMPED = re.compile(rb"(?m)^[ ]*(\d+): \[\d{4}-\d\d-\d\d ")
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
    parts: dict[str, list[_Part]] = {}
    for part in _parts(tuple(dict.fromkeys(names))):
        parts.setdefault(part.base, []).append(part)
    ranks = _ranks(list(parts))
    return tuple(
        RankLog(rank, tuple(part.name for part in sorted(parts[base], key=lambda part: part.order)))
        for rank, base in sorted(zip(ranks, parts, strict=True))
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """One file of a log.

    Attributes:
        name: As given.
        base: Its name without its compression and its age.
        order: Its place among the parts of one log: the oldest days, the highest ages, and the one still written to.
    """

    name: str
    base: str
    order: tuple[int, str, int] = (2, "", 0)


def _parts(names: Sequence[str]) -> Iterator[_Part]:
    """Yield each file with what it is a part of; numbers are ages where the newest part is there, or one part alone."""
    newest = {_PACKED.sub("", name) for name in names}
    aged = [_aged(name) for name in names]
    parts_of = Counter(part.base for part in aged)
    for part in aged:
        alone = parts_of[part.base] == 1
        yield part if alone or part.base in newest else _Part(part.name, _PACKED.sub("", part.name))


def _aged(name: str) -> _Part:
    plain = _PACKED.sub("", name)
    older = _OLDER.search(plain)
    if older is None or not PurePath(plain[: older.start()]).suffix:
        return _Part(name, plain)
    order = (1, "", -int(older["age"])) if older["age"] else (0, older["day"].replace("-", ""), 0)
    return _Part(name, plain[: older.start()], order)


def _ranks(bases: Sequence[str]) -> list[int]:
    if any(base.startswith(_NAMELESS) for base in bases):
        return list(range(len(bases)))
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
    """Return whether lines carry the labels of several tasks, as ``srun --label`` prints them.

    What a batch script says before its step carries none; then what the engines say themselves has to be labelled.
    """
    labels = [int(label) for label in _LABEL.findall(block)]
    if len(set(labels)) <= 1 or _only_count(labels):
        return False
    return len(labels) >= LABELLED_SHARE * block.count(b"\n") or len(set(_STAMPED.findall(block))) > 1


def _only_count(labels: Sequence[int]) -> bool:
    """Return whether labels number the lines, as ``nl`` does; tasks count from 0."""
    return 0 not in labels and all(after == before + 1 for before, after in pairwise(labels))


def by_label(block: bytes) -> Iterator[tuple[int | None, bytes]]:
    """Yield each task's lines of a block, without their labels; None stands for lines that have none."""
    lines: dict[int | None, list[bytes]] = {}
    known: dict[bytes, list[bytes]] = {}
    for line in _lines(block):
        label, colon, text = line.partition(b": ")
        found = known.get(label)
        if found is not None:
            found.append(text)
        elif colon and (task := _TASK.fullmatch(label)):
            known[label] = lines.setdefault(int(task[1]), [])
            known[label].append(text)
        else:
            lines.setdefault(None, []).append(line)
    yield from ((rank, b"\n".join(found) + b"\n") for rank, found in lines.items())


def _lines(block: bytes) -> list[bytes]:
    """Return the lines of a block; what a bar draws over is one line, and the label stands before it once."""
    return block.removesuffix(b"\n").split(b"\n") if block else []
