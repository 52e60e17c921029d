"""Where builders of compiled code leave their locks."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import MappingProxyType
from typing import Final

from entrypoint.plan.caches import CacheDirectory

TUNED_TABLES: Final = Path("/tmp/aiter_configs")  # noqa: S108  # where aiter merges its tables, whatever is set


class LockKind(StrEnum):
    """Whose lock it is."""

    MODULE = "aiter module"
    MODULE_BUILD = "ninja build of an aiter module"
    CLONE = "clone of aiter's third-party code"
    TEMPLATE = "aiter template operator"
    TUNED_TABLE = "aiter tuned table"
    TORCH_EXTENSION = "torch extension"
    HELPER = "helper to break a lock"
    """Some versions of aiter keep the file and lock it in the kernel: it goes only when no other run is there."""
    TRITON = "unfinished Triton entry"
    """No lock, but a directory that a killed process left; it names its process and is not kept open."""


_HELPER_SUFFIX: Final = ".steal"
_JIT = (
    ("build/lock_3rdparty_clone_*", LockKind.CLONE),
    ("build/lock_*", LockKind.MODULE),
    ("build/*/build/lock", LockKind.MODULE_BUILD),
)
_TEMPLATES = (("build/*/lock", LockKind.TEMPLATE), ("build/*/*.lock", LockKind.TEMPLATE))
_PATTERNS: Final[Mapping[str, tuple[tuple[str, LockKind], ...]]] = MappingProxyType(
    {
        "AITER_JIT_DIR": (*_JIT, *_TEMPLATES),  # where AITER_ROOT_DIR is not set, late versions build templates here
        "AITER_ROOT_DIR": _TEMPLATES,
        "HOME": (
            *((f".aiter/jit/{pattern}", kind) for pattern, kind in _JIT),
            *((f".aiter/{pattern}", kind) for pattern, kind in _TEMPLATES),
        ),
        "TORCH_EXTENSIONS_DIR": (("*/lock", LockKind.TORCH_EXTENSION),),
        "TRITON_CACHE_DIR": (("tmp.pid_*", LockKind.TRITON), ("*/tmp.pid_*", LockKind.TRITON)),
    }
)
"""Where locks lie below the directory of a variable. tvm-ffi's are not among them: those are locked in the kernel."""


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that was found.

    Attributes:
        kind: Whose it is.
        path: The file.
        name: What people call it: the path below its cache's directory.
        in_tree: Whether it lies in this node's tree of caches; else runs with other trees may hold it.
        status: Of the file itself when it was found.
    """

    kind: LockKind
    path: Path
    name: str
    in_tree: bool
    status: os.stat_result


def find(caches: Iterable[CacheDirectory], tuned_tables: Path = TUNED_TABLES) -> tuple[Lock, ...]:
    """Return every lock in cache directories, in the order of their paths; may hang with a network file system.

    Args:
        caches: The directories.
        tuned_tables: Where aiter merges its tuned tables.
    """
    found: dict[Path, Lock] = {}
    for cache in caches:
        for pattern, kind in _PATTERNS.get(cache.variable, ()):
            for path in (*cache.path.glob(pattern), *cache.path.glob(_helper(pattern))):
                _add(found, path, kind, path.relative_to(cache.path), in_tree=bool(cache.place))
    for path in (*tuned_tables.glob("*.csv.lock"), *tuned_tables.glob(_helper("*.csv.lock"))):
        _add(found, path, LockKind.TUNED_TABLE, path, in_tree=False)
    return tuple(lock for _, lock in sorted(found.items()))


def _helper(pattern: str) -> str:
    """Return what finds the helpers of locks, and locks that were moved aside and not removed any more."""
    return f"{pattern.rstrip('*')}*{_HELPER_SUFFIX}"


def _add(found: dict[Path, Lock], path: Path, kind: LockKind, name: Path, *, in_tree: bool) -> None:
    """Note what lies at a path, unless it is something else or is noted already."""
    try:
        status = path.lstat()
    except OSError:  # released while we looked
        return
    if (S_ISDIR if kind is LockKind.TRITON else S_ISREG)(status.st_mode):
        is_helper = path.name.endswith(_HELPER_SUFFIX) and kind is not LockKind.TRITON
        found.setdefault(path, Lock(LockKind.HELPER if is_helper else kind, path, str(name), in_tree, status))
