"""Whether a directory can be written, found before a run depends on it."""

import errno
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode

_PROBE: Final = b"supervise\n" * 512
"""A few KiB: enough to need a block of its own, so that a full disk and a spent quota show."""

_REASONS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        errno.EROFS: ("it lies on a read-only file system", "Choose a directory on a writable file system"),
        errno.ENOSPC: ("its file system is full", "Free space there, or choose another directory"),
        errno.EDQUOT: ("the quota there is used up", "Delete files there, or choose another directory"),
        errno.ENAMETOOLONG: ("its name is too long", "Choose a shorter path"),
        errno.ELOOP: ("its links lead in a circle", "Repair the links, or choose another directory"),
        errno.ESTALE: ("its network file system has lost it", "Mount it anew, or choose another directory"),
    }
)


def writable_finding(path: Path, purpose: str, setting: str) -> Finding | None:
    """Return why a directory cannot be written, or None when it can.

    The directory is created, with its parents, and stays; a file is written in it and removed again. A hung file
    system hangs this call: make it in a thread, with a deadline.

    Args:
        path: The directory.
        purpose: What it is for, as the object of a sentence: "logs".
        setting: Dotted name of the setting that chose it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        _write_and_remove(path / f".supervise-probe-{secrets.token_hex(8)}")
    except OSError as error:
        return unwritable(path, purpose, setting, error)
    return None


def unwritable(path: Path, purpose: str, setting: str, error: OSError) -> Finding:
    """Return the finding for a directory in which writing failed; the arguments are those of ``writable_finding``."""
    reason, remedy = _explain(path, error)
    return Finding(
        "directory-unusable",
        Severity.ERROR,
        f"The directory {path} for {purpose} cannot be written: {reason}.",
        f"{remedy} with {setting}.",
        setting,
        ExitCode.DIRECTORY_UNUSABLE,
    )


def _write_and_remove(probe: Path) -> None:
    """Write a small file through to the disk, where quotas are counted, and remove it whatever happens."""
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(handle, _PROBE)
            os.fsync(handle)
        finally:
            os.close(handle)
    finally:
        probe.unlink()


def _explain(path: Path, error: OSError) -> tuple[str, str]:
    """Return why writing failed, and what to do, the latter to be followed by the setting's name."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"user {os.getuid()} may not write in {_deepest_existing(path)}", "Choose a directory of your own"
    in_the_way = _file_in_the_way(path)
    if in_the_way is not None:
        return f"{in_the_way} is not a directory", "Remove that file, or choose another directory"
    reason, remedy = _REASONS.get(error.errno or 0, (error.strerror or str(error), "Choose another directory"))
    return reason, remedy


def _file_in_the_way(path: Path) -> Path | None:
    """Return the part of a path that exists and is no directory, such as a file or a link to nowhere."""
    existing = _deepest_existing(path)
    return None if existing.is_dir() else existing


def _deepest_existing(path: Path) -> Path:
    """Return the path itself, or the nearest of its parents that is there, dangling links included."""
    return next(part for part in (path, *path.absolute().parents) if os.path.lexists(part))
