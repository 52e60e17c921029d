"""Copying: one entry goes from a directory to another, where it is seen whole or not at all.

Nothing that is there is ever replaced. A copy is made in a staging directory on the same file system and put in place
by one call of the kernel: a file by a link, which fails where the name is taken, a directory by a rename, which fails
where there is one with something in it. Of two that copy the same entry one wins; the other throws its own away.
"""

import errno
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from entrypoint.warm.entry import Entry, EntryDirectory
from entrypoint.warm.file_copy import ChangedError, Durability, FileCopier, SourceError, source_errors

_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
"""How file systems say that a file can have one name only."""
TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR})
"""How they say that something lies where a directory was to be put."""
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_PERMISSIONS: Final = 0o777


class Refusal(StrEnum):
    """Why a tree takes no more, whatever the entry."""

    FULL = "full"
    QUOTA = "quota"
    READ_ONLY = "read-only"
    FORBIDDEN = "forbidden"


REFUSALS: Final[Mapping[int, Refusal]] = MappingProxyType(
    {
        errno.ENOSPC: Refusal.FULL,
        errno.EDQUOT: Refusal.QUOTA,
        errno.EROFS: Refusal.READ_ONLY,
        errno.EACCES: Refusal.FORBIDDEN,
    }
)


@dataclass(frozen=True, slots=True)
class Copied:
    """The entry is there, and was not before."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Something of that name was there, and still is."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The source was being written, or is gone: it is not finished."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The entry could not be copied.

    Attributes:
        reason: Why, in the words of the system.
        refusal: Why the target takes no other entry either; None where it may.
    """

    reason: str
    refusal: Refusal | None = None


Outcome = Copied | Kept | Changed | Failed


class Copier:
    """Copies entries into one tree; used by several threads at once.

    Args:
        staging: A directory of this copier alone, within the tree.
        durability: What outlives a crash.
    """

    def __init__(self, staging: Path, durability: Durability) -> None:
        self._staging = staging
        self._durability = durability
        self._files = FileCopier(durability)
        self._numbers = itertools.count(1)

    def copy(self, entry: Entry, source: Path, target: Path, advance: Callable[[int], None]) -> Outcome:
        """Copy an entry, unless there is something of its name.

        Args:
            entry: What is copied.
            source: The cache's directory that it is in.
            target: The cache's directory that it is to be in; made where it is missing.
            advance: Told of bytes that were copied; what it raises ends the copy.
        """
        try:
            try:
                return self._copy(entry, source, target, advance)
            except OSError as error:
                # A handle of a file server that went stale: by its name the same thing may well be found again.
                if error.errno != errno.ESTALE:
                    raise
            return self._copy(entry, source, target, advance)
        except ChangedError:
            return Changed()
        except SourceError as error:
            return Failed(str(error))
        except OSError as error:
            return Failed(str(error), REFUSALS.get(error.errno or 0))

    def _copy(self, entry: Entry, source: Path, target: Path, advance: Callable[[int], None]) -> Outcome:
        place = target / entry.path
        if exists(place):
            return Kept()
        staged = self._staging / str(next(self._numbers))
        try:
            if entry.is_directory:
                self._stage_directory(entry, source, staged, advance)
                return _put(place, lambda: _put_directory(staged, place))
            self._files.copy(f"{source}/{entry.path}", str(staged), entry.files[0], advance)
            return _put(place, lambda: _put_file(staged, place))
        finally:
            _discard(staged, entry)

    def _stage_directory(self, entry: Entry, source: Path, staged: Path, advance: Callable[[int], None]) -> None:
        for directory in entry.directories:
            (staged / _within(directory.path, entry)).mkdir(stat.S_IRWXU)
        for file in entry.files:
            copy = staged / _within(file.path, entry)
            if file.link:
                copy.symlink_to(file.link)
            else:
                self._files.copy(f"{source}/{file.path}", str(copy), file, advance)
        for directory in reversed(entry.directories):
            self._finish_directory(source / directory.path, staged / _within(directory.path, entry), directory)

    def _finish_directory(self, source: Path, copy: Path, directory: EntryDirectory) -> None:
        """Give a copied directory the mode and time of its source, which nothing came into meanwhile."""
        with source_errors():
            status = source.lstat()
        if status.st_mtime_ns != directory.mtime_ns:
            raise ChangedError
        made = copy.lstat()
        mode = stat.S_IMODE(status.st_mode) & _PERMISSIONS | stat.S_IRWXU
        copy.chmod(stat.S_IMODE(made.st_mode) & ~_PERMISSIONS | mode)
        os.utime(copy, ns=(made.st_atime_ns, directory.mtime_ns))
        if self._durability is Durability.FLUSHED:
            flush_directory(copy)


def exists(path: Path) -> bool:
    """Return whether there is anything at a path.

    Raises:
        OSError: It cannot be told.
    """
    try:
        path.lstat()
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise
    return True


def flush_directory(path: Path) -> None:
    """Write a directory's names to the disk; where a file system has no such call, it keeps them in its own way."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _within(path: str, entry: Entry) -> str:
    return path[len(entry.path) + 1 :]


def _put(place: Path, put: Callable[[], Outcome]) -> Outcome:
    """Put a copy in place, and make the directory that it goes to only where it is missing."""
    try:
        return put()
    except FileNotFoundError:
        place.parent.mkdir(parents=True, exist_ok=True)
        return put()


def _put_file(staged: Path, place: Path) -> Outcome:
    try:
        place.hardlink_to(staged)
    except FileExistsError:
        return Kept()
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if exists(place):
            return Kept()
        # Should another copy appear just now, it is replaced by this one, as whole as the other.
        staged.rename(place)
    return Copied()


def _put_directory(staged: Path, place: Path) -> Outcome:
    try:
        staged.rename(place)
    except OSError as error:
        if error.errno in TAKEN and exists(place):
            return Kept()
        raise
    return Copied()


def _discard(staged: Path, entry: Entry) -> None:
    """Remove what is left of a copy; what resists goes with the whole of the staging directory."""
    if entry.is_directory:
        shutil.rmtree(staged, ignore_errors=True)
    else:
        with suppress(OSError):
            staged.unlink()
