"""The inventory: what each cache takes up in a tree, and which of it is this node's memory."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrypoint.node.filesystems import FileSystem, file_system_of
from entrypoint.plan.caches import CacheDirectory

_BLOCK_BYTES: Final = 512
"""What ``st_blocks`` counts in, whatever the file system's own blocks are."""
_GLANCE: Final = 64
"""Files between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What one cache takes up.

    Attributes:
        variable: Its environment variable.
        path: Its directory.
        size_bytes: What its files take up, which is what they cost where they lie in memory.
        files: How many there are.
        in_memory: Whether they are this node's memory.
    """

    variable: str
    path: Path
    size_bytes: int
    files: int
    in_memory: bool


@dataclass(frozen=True, slots=True)
class Inventory:
    """What the caches of a tree take up.

    Attributes:
        caches: Each cache of the tree.
        is_complete: Whether there was time to see everything; else all numbers are at least so much.
    """

    caches: tuple[CacheSize, ...]
    is_complete: bool

    @property
    def size_bytes(self) -> int:
        """What all of them take up."""
        return sum(cache.size_bytes for cache in self.caches)

    @property
    def in_memory_bytes(self) -> int:
        """What of it is this node's memory."""
        return sum(cache.size_bytes for cache in self.caches if cache.in_memory)


class _OutOfTimeError(Exception):
    """There is no time to look further."""


def sizes(
    caches: Iterable[CacheDirectory],
    tree: Path,
    mounts: tuple[FileSystem, ...],
    *,
    deadline_s: float,
    clock: Callable[[], float],
) -> Inventory:
    """Return what each cache takes up in a tree; links are not followed, what cannot be read is not counted.

    A single call of the kernel may hang with a network file system all the same.

    Args:
        caches: The caches; those that lie in no tree are passed over.
        tree: The tree, an absolute path without links.
        mounts: The kernel's table.
        deadline_s: When to stop, by the clock.
        clock: Tells seconds that only grow.
    """
    found: list[CacheSize] = []
    is_complete = True
    for cache in caches:
        if cache.place:
            counter = _Counter(deadline_s, clock)
            is_complete &= counter.count(tree / cache.place)
            found.append(_size(cache, tree / cache.place, counter, mounts))
    return Inventory(tuple(found), is_complete)


def _size(cache: CacheDirectory, path: Path, counter: "_Counter", mounts: tuple[FileSystem, ...]) -> CacheSize:
    lies_on = file_system_of(path, mounts)
    in_memory = lies_on is not None and lies_on.in_memory
    return CacheSize(cache.variable, path, counter.size_bytes, counter.files, in_memory)


class _Counter:
    """Counts the files below a directory, as long as there is time.

    Args:
        deadline_s: When to stop, by the clock.
        clock: Tells seconds that only grow.
    """

    def __init__(self, deadline_s: float, clock: Callable[[], float]) -> None:
        self.size_bytes = 0
        self.files = 0
        self._deadline_s = deadline_s
        self._clock = clock

    def count(self, directory: Path) -> bool:
        """Count; return whether there was time for all."""
        try:
            for status in self._statuses(str(directory)):
                self.size_bytes += status.st_blocks * _BLOCK_BYTES
                self.files += 1
        except _OutOfTimeError:
            return False
        return True

    def _statuses(self, directory: str) -> Iterator[os.stat_result]:
        pending = [directory]
        while pending:
            self._check_time()
            for number, item in enumerate(_items(pending.pop()), 1):
                if number % _GLANCE == 0:
                    self._check_time()
                try:
                    if item.is_dir(follow_symlinks=False):
                        pending.append(item.path)
                    else:
                        yield item.stat(follow_symlinks=False)
                except OSError:
                    continue

    def _check_time(self) -> None:
        if self._clock() >= self._deadline_s:
            raise _OutOfTimeError


def _items(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as items:
            return list(items)
    except OSError:
        return []
