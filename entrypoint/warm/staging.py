"""Staging: private directories in which copies are made before they are put in place, and what the dead left of them.

The name of each tells who made it, so that a process that was killed in the middle leaves nothing for ever.
"""

import errno
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from entrypoint.warm.lock_owner import Vantage, start_ticks

DIRECTORY: Final = ".staging"
"""Where in a tree its staging directories lie: on the file system that they are put in place on."""
BESIDE: Final = ".staging-"
"""Between the name of a tree and that of its maker, while it is made as a whole."""
FORGOTTEN_S: Final = 86400.0
"""Nobody copies for so long: what is older is left over, whoever made it."""
_PRIVATE: Final = 0o700
_AS_ANY: Final = 0o777
"""Less what the process takes away from all that it makes."""
_ATTEMPTS: Final = 20
"""Others remove the parent of all staging directories when they were the last, at just that moment perhaps."""
_PASSING: Final = (errno.ENOENT, errno.ESTALE)
_NAME: Final = re.compile(r"(?P<host>.+)-(?P<namespace>\d+)-(?P<pid>\d+)-(?P<ticks>\d+)-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Maker:
    """The process that makes staging directories.

    Attributes:
        pid: Its process id.
        vantage: From where it sees others.
        started_ticks: When it began, since process ids are used again.
    """

    pid: int
    vantage: Vantage
    started_ticks: int = field(default=0)

    @classmethod
    def of(cls, pid: int, vantage: Vantage) -> "Maker":
        """Return the maker with this process id."""
        return cls(pid, vantage, start_ticks(pid, vantage.proc) or 0)

    def new_name(self) -> str:
        """Return a name that was never given before."""
        here = self.vantage
        return f"{here.host}-{here.pid_namespace}-{self.pid}-{self.started_ticks}-{secrets.token_hex(6)}"

    def is_left_over(self, directory: Path, name: str, now_unix_s: float) -> bool:
        """Return whether whoever made a directory is dead, or has forgotten it.

        Args:
            directory: A staging directory.
            name: The name that its maker gave it.
            now_unix_s: The time, in seconds since 1970.
        """
        made = _NAME.fullmatch(name)
        here = (self.vantage.host, str(self.vantage.pid_namespace))
        if made is not None and self.vantage.pid_namespace and (made["host"], made["namespace"]) == here:
            return start_ticks(int(made["pid"]), self.vantage.proc) != int(made["ticks"])
        try:
            return now_unix_s - directory.lstat().st_mtime > FORGOTTEN_S
        except OSError:
            return False


@contextmanager
def staging(tree: Path, maker: Maker, now_unix_s: float) -> Iterator[Path]:
    """Yield a new directory within a tree, gone afterwards; remove what others left there before.

    Args:
        tree: Made where it is missing.
        maker: This process.
        now_unix_s: The time, in seconds since 1970.

    Raises:
        OSError: It cannot be made.
    """
    parent = tree / DIRECTORY
    clear(parent, maker, now_unix_s)
    directory = _make(parent / maker.new_name(), _PRIVATE)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):
            parent.rmdir()


@contextmanager
def staging_beside(tree: Path, maker: Maker, now_unix_s: float) -> Iterator[Path]:
    """Yield a new directory beside a tree, to become that tree by a rename, else gone afterwards.

    The arguments and what is raised are those of ``staging``.
    """
    prefix = tree.name + BESIDE
    _clear(tree.parent, _beside(tree), prefix, maker, now_unix_s)
    directory = _make(tree.with_name(prefix + maker.new_name()), _AS_ANY)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def clear(parent: Path, maker: Maker, now_unix_s: float) -> None:
    """Remove what the dead left in the parent of staging directories, and it, as far as that can be done."""
    try:
        found = list(parent.iterdir())
    except OSError:
        return
    _clear(parent, found, "", maker, now_unix_s)
    with suppress(OSError):
        parent.rmdir()


def _beside(tree: Path) -> list[Path]:
    try:
        return [path for path in tree.parent.iterdir() if path.name.startswith(tree.name + BESIDE)]
    except OSError:
        return []


def _clear(parent: Path, found: Iterable[Path], prefix: str, maker: Maker, now_unix_s: float) -> None:
    for directory in found:
        if maker.is_left_over(directory, directory.name.removeprefix(prefix), now_unix_s):
            # Renamed first: should its maker live after all, it finds nothing instead of half of what it copied.
            aside = parent / (prefix + maker.new_name())
            with suppress(OSError):
                shutil.rmtree(directory.rename(aside), ignore_errors=True)


def _make(directory: Path, mode: int) -> Path:
    for attempt in range(_ATTEMPTS):
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            directory.mkdir(mode)
        except OSError as error:
            if error.errno not in _PASSING or attempt == _ATTEMPTS - 1:
                raise
        else:
            break
    return directory
