"""The copy of one file: content, mode and times, by the cheapest way that the file systems know.

A file that is not, before and after, what it was when it was listed is being written by somebody.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from entrypoint.warm.entry import EntryFile

_FICLONE: Final = 0x40049409
"""Let a file share the blocks of another (linux/fs.h)."""
_CHUNK_BYTES: Final = 16 << 20
_SMALL_CHUNK_BYTES: Final = 1 << 20
_NO_RANGES: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF})
"""How they say that they do not copy by themselves."""
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What a name gives when another thing took the place of a file, or nothing did."""


class Durability(StrEnum):
    """What of a copy outlives a crash of the machine."""

    FLUSHED = "flushed"
    """All of it: it is on the disk before it can be seen."""
    IN_MEMORY = "in memory"
    """What the kernel has written by then: for a tree that can be made anew."""


class ChangedError(Exception):
    """A file is not as it was listed."""


class SourceError(Exception):
    """A file of the source cannot be read."""


class FileCopier:
    """Copies files into one tree; used by several threads at once.

    Args:
        durability: What outlives a crash.
    """

    def __init__(self, durability: Durability) -> None:
        self._durability = durability
        self._cannot_clone: set[int] = set()

    def copy(self, source: str, copy: str, file: EntryFile, advance: Callable[[int], None]) -> None:
        """Copy a file's content, mode and time.

        Raises:
            ChangedError: It is not, or no longer, what was listed.
            SourceError: It cannot be read.
            OSError: The copy cannot be written.
        """
        # Whatever lies there by now, opening it neither follows a link nor waits at a pipe.
        with source_errors():
            source_handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            before = os.fstat(source_handle)
            _expect(before, file)
            writing = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                self._copy_content(source_handle, writing, before, advance)
                os.fchmod(writing, stat.S_IMODE(before.st_mode) & 0o777 | stat.S_IWUSR)
                written = os.fstat(writing)
                if written.st_size != before.st_size:
                    raise ChangedError
                # Not the source's time of access, which may be long ago: sites remove what was not read lately.
                os.utime(writing, ns=(written.st_atime_ns, before.st_mtime_ns))
                if self._durability is Durability.FLUSHED:
                    os.fsync(writing)
            finally:
                os.close(writing)
            _expect(os.fstat(source_handle), file)
        finally:
            os.close(source_handle)

    def _copy_content(self, reading: int, writing: int, status: os.stat_result, advance: Callable[[int], None]) -> None:
        if status.st_dev not in self._cannot_clone:
            try:
                fcntl.ioctl(writing, _FICLONE, reading)
            except OSError:
                self._cannot_clone.add(status.st_dev)
            else:
                advance(status.st_size)
                return
        if not _copy_ranges(reading, writing, status.st_size, advance):
            _read_and_write(reading, writing, advance)


def _copy_ranges(reading: int, writing: int, size_bytes: int, advance: Callable[[int], None]) -> bool:
    """Let the kernel copy; return whether it could."""
    left_bytes = size_bytes
    while left_bytes:
        try:
            count = os.copy_file_range(reading, writing, min(left_bytes, _CHUNK_BYTES))
        except OSError as error:
            if error.errno in _NO_RANGES and left_bytes == size_bytes:
                return False
            raise
        if not count:
            return left_bytes != size_bytes  # cut short meanwhile, or one of the file systems that copy nothing
        left_bytes -= count
        advance(count)
    return True


def _read_and_write(reading: int, writing: int, advance: Callable[[int], None]) -> None:
    while data := os.read(reading, _SMALL_CHUNK_BYTES):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(writing, rest) :]
        advance(len(data))


def _expect(status: os.stat_result, file: EntryFile) -> None:
    """Raise when a file is not what was listed."""
    if not stat.S_ISREG(status.st_mode) or (status.st_size, status.st_mtime_ns) != (file.size_bytes, file.mtime_ns):
        raise ChangedError


@contextmanager
def source_errors() -> Iterator[None]:
    """Tell errors of the source from those of the target; a stale handle is tried again whichever it is."""
    try:
        yield
    except OSError as error:
        if error.errno in _GONE:
            raise ChangedError from error
        if error.errno == errno.ESTALE:
            raise
        raise SourceError(str(error)) from error
