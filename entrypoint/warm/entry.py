"""Entry: the smallest piece of a cache, copied whole or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EntryFile:
    """One file of an entry.

    Attributes:
        path: Below the cache's directory.
        size_bytes: How long it is.
        mtime_ns: When it was last written.
        link: Where it leads to, if it is a symbolic link; such a link never leads out of its entry.
    """

    path: str
    size_bytes: int
    mtime_ns: int
    link: str = ""


@dataclass(frozen=True, slots=True)
class EntryDirectory:
    """One directory of an entry, the entry itself included.

    Attributes:
        path: Below the cache's directory.
        mtime_ns: When a name in it last came or went.
    """

    path: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished entry.

    Attributes:
        path: Below the cache's directory.
        files: What it consists of; an entry that is a file is the only one.
        directories: Those that it consists of, parents first; none where it is a file.
    """

    path: str
    files: tuple[EntryFile, ...]
    directories: tuple[EntryDirectory, ...] = ()

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory that is copied whole."""
        return bool(self.directories)

    @property
    def size_bytes(self) -> int:
        """What its files hold."""
        return sum(file.size_bytes for file in self.files)

    @property
    def mtimes_ns(self) -> Iterator[int]:
        """When each part of it was last written."""
        yield from (file.mtime_ns for file in self.files)
        yield from (directory.mtime_ns for directory in self.directories)
