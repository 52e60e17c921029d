"""Entries: the finished pieces of a cache, found without touching or following anything.

A builder may be at work at any time, on this node or on another, and may have been killed at any time. Whether an entry
is finished is told by what its builder leaves: its lock, its temporaries, the file that it writes last, the end of a
library, and by silence.
"""

import fnmatch
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from entrypoint.plan.caches import EntryRule
from entrypoint.warm import library
from entrypoint.warm.copying import exists
from entrypoint.warm.entry import Entry, EntryDirectory, EntryFile

TEMPORARY = "tmp.pid_*"
"""What Triton, and those that took its code over, write before they put a file in place."""
ABANDONED_S = 3600.0
"""A temporary lives for milliseconds; one this old is a dead builder's, and the rest of its entry is good."""
_ANY_DEPTH = "**"


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found in a cache's directory.

    Attributes:
        entries: What is finished, by path.
        unfinished: How many are not finished, or could not be looked at.
        unfit: How many are never copied: links that lead out of them, pipes, sockets.
        known: How many were left out because they were known.
    """

    entries: tuple[Entry, ...] = ()
    unfinished: int = 0
    unfit: int = 0
    known: int = 0


class _UnfinishedError(Exception):
    """Somebody may be at work on an entry."""


class _UnfitError(Exception):
    """An entry is nothing that may be copied."""


@dataclass(frozen=True, slots=True)
class _Silence:
    """Since when nobody may have written.

    Attributes:
        now_unix_s: This moment, by this node's clock.
        quiet_s: How long.
    """

    now_unix_s: float
    quiet_s: float

    def is_broken_by(self, mtime_ns: int) -> bool:
        """Return whether something was written just now.

        The clock of a file server may be ahead; a time much further ahead says nothing.
        """
        return abs(self.now_unix_s - mtime_ns / 1e9) < self.quiet_s


def names(directory: Path, rules: tuple[EntryRule, ...]) -> frozenset[str]:
    """Return the paths of all that an entry of these rules may lie at, finished or not; looks at names alone."""
    return frozenset(path for rule in rules for path, _ in _candidates(str(directory), rule))


def finished(
    directory: Path,
    rules: tuple[EntryRule, ...],
    *,
    quiet_s: float,
    now_unix_s: float,
    known: Collection[str] = frozenset(),
) -> Listing:
    """Return the finished entries of a cache; what vanishes meanwhile or cannot be read is not finished.

    Args:
        directory: The cache's directory, which need not exist.
        rules: What its entries are.
        quiet_s: How long nothing of an entry may have been written.
        now_unix_s: The time, in seconds since 1970.
        known: Paths of entries that are of no interest.
    """
    silence = _Silence(now_unix_s, quiet_s)
    entries: dict[str, Entry] = {}
    unfinished = unfit = left_out = 0
    for rule in rules:
        for path, item in _candidates(str(directory), rule):
            if path in known:
                left_out += 1
                continue
            try:
                entries.setdefault(path, _entry(directory, rule, path, item, silence))
            except (OSError, _UnfinishedError):
                unfinished += 1
            except _UnfitError:
                unfit += 1
    return Listing(tuple(entries[path] for path in sorted(entries)), unfinished, unfit, left_out)


def _candidates(directory: str, rule: EntryRule) -> Iterator[tuple[str, os.DirEntry[str]]]:
    for path, item in _matches(directory, "", PurePosixPath(rule.pattern).parts, _left_out(rule)):
        if not rule.holds or _is_directory(item):  # only a directory can hold something; a lock may lie beside it
            yield path, item


def _matches(
    root: str, below: str, parts: tuple[str, ...], left_out: re.Pattern[str]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield what the rest of a pattern finds in a directory, with its path below the root."""
    here, rest = parts[0], parts[1:]
    for item in _scan(f"{root}/{below}"):
        path = below + item.name
        if left_out.match(item.name):
            continue
        if here == _ANY_DEPTH:
            if _is_directory(item):
                yield from _matches(root, f"{path}/", parts, left_out)
            elif fnmatch.fnmatchcase(item.name, rest[0]):
                yield path, item
        elif not fnmatch.fnmatchcase(item.name, here):
            continue
        elif not rest:
            yield path, item
        elif _is_directory(item):
            yield from _matches(root, f"{path}/", rest, left_out)


def _scan(directory: str) -> list[os.DirEntry[str]]:
    """Return what a directory holds; nothing where it cannot be read, since all in it might be unfinished."""
    try:
        with os.scandir(directory) as items:
            return list(items)
    except OSError:
        return []


def _is_directory(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _left_out(rule: EntryRule) -> re.Pattern[str]:
    return _any_of((*rule.leaves_out, TEMPORARY))


@lru_cache(maxsize=256)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))


def _entry(directory: Path, rule: EntryRule, path: str, item: os.DirEntry[str], silence: _Silence) -> Entry:
    """Return an entry that is finished.

    Raises:
        _UnfinishedError: It is not.
        _UnfitError: It is nothing that may be copied.
        OSError: It cannot be looked at.
    """
    if rule.lock and exists(directory / rule.lock.format(name=item.name, stem=PurePosixPath(item.name).stem)):
        raise _UnfinishedError
    if not item.is_dir(follow_symlinks=False):
        status = item.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise _UnfitError
        entry = Entry(path, (EntryFile(path, status.st_size, status.st_mtime_ns),))
    else:
        entry = _Collector(rule, str(directory), silence).collect(path)
    if any(silence.is_broken_by(mtime_ns) for mtime_ns in entry.mtimes_ns) or any(
        library.is_cut_off(f"{directory}/{file.path}", file.size_bytes)
        for file in entry.files
        if file.path.endswith(library.SUFFIX) and not file.link
    ):
        raise _UnfinishedError
    return entry


class _Collector:
    """Gathers what a directory that is one entry consists of.

    Args:
        rule: What its entries are.
        root: The cache's directory.
        silence: How long nobody may have written.
    """

    def __init__(self, rule: EntryRule, root: str, silence: _Silence) -> None:
        self._rule = rule
        self._root = root
        self._silence = silence
        self._files: list[EntryFile] = []
        self._directories: list[EntryDirectory] = []

    def collect(self, path: str) -> Entry:
        """Return the entry at a path; raises as ``_entry`` does."""
        self._descend(path, 0)
        own = [file for file in self._files if not file.link]
        if not own or not self._is_marked(path):
            raise _UnfinishedError
        return Entry(path, tuple(self._files), tuple(self._directories))

    def _descend(self, below: str, depth: int) -> None:
        # Its time is taken first: what comes while it is read is seen by a look at the time afterwards.
        mtime_ns = os.lstat(f"{self._root}/{below}").st_mtime_ns
        self._directories.append(EntryDirectory(below, mtime_ns))
        left_out = _left_out(self._rule)
        with os.scandir(f"{self._root}/{below}") as items:
            for item in items:
                if left_out.match(item.name):
                    self._refuse_temporary(item)
                else:
                    self._take(f"{below}/{item.name}", item, depth)

    def _take(self, path: str, item: os.DirEntry[str], depth: int) -> None:
        status = item.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            self._descend(path, depth + 1)
        elif stat.S_ISREG(status.st_mode):
            self._files.append(EntryFile(path, status.st_size, status.st_mtime_ns))
        elif stat.S_ISLNK(status.st_mode):
            link = os.readlink(f"{self._root}/{path}")  # noqa: PTH115  # as written: a Path would tidy it up
            if not _stays_within(link, depth):
                raise _UnfitError
            self._files.append(EntryFile(path, 0, status.st_mtime_ns, link))

    def _refuse_temporary(self, item: os.DirEntry[str]) -> None:
        """Raise when a builder has just made this."""
        if fnmatch.fnmatchcase(item.name, TEMPORARY):
            age_s = self._silence.now_unix_s - item.stat(follow_symlinks=False).st_mtime
            if age_s < ABANDONED_S:
                raise _UnfinishedError

    def _is_marked(self, path: str) -> bool:
        """Return whether the entry itself holds, with something in it, what it must hold to be finished."""
        if not self._rule.holds:
            return True
        beginning = f"{path}/"
        return any(
            file.size_bytes and "/" not in (name := file.path.removeprefix(beginning)) and self._marks(name)
            for file in self._files
        )

    def _marks(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self._rule.holds)


def _stays_within(link: str, depth: int) -> bool:
    """Return whether a link cannot lead out of its entry, even by way of other links that stay within it.

    Args:
        link: What it holds.
        depth: How many directories of the entry it lies below.
    """
    parts = PurePosixPath(link).parts
    upwards = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return not link.startswith("/") and upwards <= depth and ".." not in parts[upwards:]
