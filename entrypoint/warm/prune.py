"""Prune: trees of software that is no longer run are found and removed, and nothing else.

A user may have pointed a setting at a directory with other things in it, so that only what has the shape of a key is
looked at: ``<software>/<architecture>/<family>``, with the marker of a tree or nothing but known places in the last.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from entrypoint.plan.cache_key import NO_GPU, CacheKey
from entrypoint.plan.caches import CACHE_RULES, CacheLayer
from entrypoint.warm import staging, tree_use
from entrypoint.warm.layers import MARKER

MIN_AGE_S: Final = 30 * 86400.0
ASIDE: Final = ".pruned-"
"""What a key is renamed to before it is removed, so that it is there as a whole or not at all."""
NEVER: Final = frozenset({"flags"})
"""Directories in a root that are no keys, whatever they hold."""
USED: Final = "used"
"""A file in a tree whose time is that of its last use: many file systems do not note when they are read."""
_SOFTWARE: Final = re.compile(r"[a-z0-9_+][a-z0-9._+-]*")
_ARCHITECTURE: Final = re.compile(rf"gfx[a-z0-9._+-]*|{re.escape(NO_GPU)}")
_PLACES: Final = frozenset(
    PurePosixPath(rule.place).parts[0] for rule in CACHE_RULES if rule.layer is CacheLayer.LOCAL and rule.place
)
_OWN: Final = frozenset({tree_use.USERS, staging.DIRECTORY})
"""Directories in a tree that are no places."""


@dataclass(frozen=True, slots=True)
class Prunable:
    """A key that is not the current one.

    Attributes:
        path: The directory of a software, with everything that was kept for it.
        size_bytes: What its files hold.
        last_use_unix_s: When any of it was read or written last, as far as its file system notes that.
        in_use: Whether a living run on this node uses it.
    """

    path: Path
    size_bytes: int
    last_use_unix_s: float
    in_use: bool


@dataclass(frozen=True, slots=True)
class Pruned:
    """What came of pruning.

    Attributes:
        removed: What is gone.
        in_use: What stays because somebody uses it.
        recent: What stays because it was used lately.
        failures: What could not be removed, with the reason.
    """

    removed: tuple[Prunable, ...]
    in_use: tuple[Prunable, ...]
    recent: tuple[Prunable, ...]
    failures: tuple[tuple[Path, str], ...]


def note_use(tree: Path) -> None:
    """Write down that a tree is used now, by its file system's clock, if that may be written there."""
    with suppress(OSError):
        (tree / USED).touch()


def prunable(root: Path, keep: CacheKey) -> tuple[Prunable, ...]:
    """Return every key below a root but the current software's, by path; may hang with a network file system.

    Args:
        root: The directory of all shared trees, or of all local ones.
        keep: The current key.
    """
    return tuple(_look(path) for path in _keys(root, keep))


def prune(root: Path, keep: CacheKey, *, now_unix_s: float, min_age_s: float = MIN_AGE_S) -> Pruned:
    """Remove every key below a root that nobody uses and nobody used lately.

    A run on another node is seen by what it read and wrote lately, since locks may be a node's own.

    Args:
        root: The directory of all shared trees, or of all local ones.
        keep: The current key, whose software stays.
        now_unix_s: The time, in seconds since 1970.
        min_age_s: How long a key must have been unused.
    """
    _finish_earlier(root)
    removed: list[Prunable] = []
    in_use: list[Prunable] = []
    recent: list[Prunable] = []
    failures: list[tuple[Path, str]] = []
    for key in prunable(root, keep):
        if key.in_use:
            in_use.append(key)
        elif now_unix_s - key.last_use_unix_s < min_age_s:
            recent.append(key)
        else:
            try:
                (removed if _remove(key.path) else in_use).append(key)
            except OSError as error:
                failures.append((key.path, str(error)))
    return Pruned(tuple(removed), tuple(in_use), tuple(recent), tuple(failures))


def _keys(root: Path, keep: CacheKey) -> list[Path]:
    return [
        path
        for path in _directories(root)
        if path.name != keep.software and path.name not in NEVER and _SOFTWARE.fullmatch(path.name) and _is_key(path)
    ]


def _is_key(software: Path) -> bool:
    """Return whether a directory holds trees and nothing else."""
    trees = _trees(software)
    return bool(trees) and all(_is_tree(tree) for tree in trees)


def _trees(software: Path) -> list[Path]:
    """Return the trees of a software; none where anything in it is something else."""
    architectures = _directories(software)
    families = [family for architecture in architectures for family in _directories(architecture)]
    names = (path.name for directory in (software, *architectures) for path in _listed(directory))
    if sorted(names) != sorted(path.name for path in (*architectures, *families)):
        return []
    if not all(_ARCHITECTURE.fullmatch(architecture.name) for architecture in architectures):
        return []
    return families


def _is_tree(tree: Path) -> bool:
    if staging.BESIDE in tree.name or _is_file(tree / MARKER) or _is_file(tree / tree_use.LOCK):
        return True
    held = {path.name for path in _directories(tree)}
    return bool(held & _PLACES) and held <= _PLACES | _OWN


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _directories(directory: Path) -> list[Path]:
    return [path for path in _listed(directory) if path.is_dir() and not path.is_symlink()]


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _look(software: Path) -> Prunable:
    statuses = list(_statuses(software))
    last_use_unix_s = max((max(status.st_atime, status.st_mtime) for status in statuses), default=0.0)
    size_bytes = sum(status.st_size for status in statuses)
    with _unused(software) as unused:
        return Prunable(software, size_bytes, last_use_unix_s or software.lstat().st_mtime, not unused)


def _statuses(directory: Path) -> Iterator[os.stat_result]:
    for below, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                yield os.lstat(f"{below}/{name}")


@contextmanager
def _unused(software: Path) -> Iterator[bool]:
    """Yield whether no run on this node uses a software; as long as the block lasts, none can begin to."""
    with ExitStack() as held:
        yield all(_take(tree / tree_use.LOCK, held) for tree in _trees(software))


def _take(lock: Path, held: ExitStack) -> bool:
    """Take a tree's lock if nobody has it; return whether nobody has."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # it cannot be told
    held.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Where there are no locks nobody can hold one, and age alone decides.
        return error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
    return True


def _remove(software: Path) -> bool:
    """Remove a software's trees; return whether nobody had begun to use them meanwhile.

    Raises:
        OSError: They cannot be set aside.
    """
    aside = software.with_name(ASIDE + secrets.token_hex(6))
    with _unused(software) as unused:
        if unused:
            software.rename(aside)
    if unused:
        shutil.rmtree(aside, ignore_errors=True)
    return unused


def _finish_earlier(root: Path) -> None:
    """Remove what an earlier one set aside and did not live to remove."""
    for path in _directories(root):
        if re.fullmatch(rf"{re.escape(ASIDE)}[0-9a-f]{{12}}", path.name):
            shutil.rmtree(path, ignore_errors=True)
