"""Leftovers: shared memory that a killed engine left behind, which is memory that its successor lacks.

On Linux a segment of shared memory is a file in ``/dev/shm``, and it stays when its makers are killed before they
unlink it. PyTorch, NCCL and Python's multiprocessing all make such files, with names of their own.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # looked at, and only our own files are removed
PROC = Path("/proc")
MAKERS = ("torch_", "nccl-", "psm_", "sem.mp-", "mp-", "sglang")
"""How the names of segments begin that an engine makes: no other program's are ever removed."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What was removed.

    Attributes:
        files: How many files.
        bytes: How much memory they held.
    """

    files: int = 0
    bytes: int = 0


def remove_leftovers(since_unix_s: float, directory: Path = SHARED_MEMORY, proc: Path = PROC) -> Leftovers:
    """Remove the shared memory that this user's processes made since a moment and that none of them has any more.

    Args:
        since_unix_s: When the engine was started that is gone now.
        directory: Where shared memory lies.
        proc: Where the kernel tells about processes.
    """
    candidates = {path: status for path, status in _files(directory) if _is_ours(status, since_unix_s)}
    if not candidates:
        return Leftovers()
    used = set(_identities_in_use(proc))
    removed = [status for path, status in candidates.items() if _identity(status) not in used and _unlink(path)]
    return Leftovers(len(removed), sum(status.st_blocks * 512 for status in removed))


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        entries = list(os.scandir(directory))
    except OSError:  # no shared memory here: nothing can have been left in it
        return
    for entry in entries:
        try:
            if entry.name.startswith(MAKERS) and entry.is_file(follow_symlinks=False):
                yield Path(entry.path), entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # unlinked while we looked
            continue


def _is_ours(status: os.stat_result, since_unix_s: float) -> bool:
    return status.st_uid == os.geteuid() and status.st_ctime >= since_unix_s


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _identities_in_use(proc: Path) -> Iterator[tuple[int, int]]:
    """Yield device and inode of every file that a living process has open or mapped, as far as we may look.

    Whoever has a file keeps it also when its name is removed, so that a process we may not look at loses nothing.
    """
    for process in proc.glob("[0-9]*"):
        try:
            yield from _mapped(process / "maps")
            yield from _opened(process / "fd")
        except OSError:  # it ended while we looked, or belongs to somebody else
            continue


def _mapped(maps: Path) -> Iterator[tuple[int, int]]:
    for line in maps.read_text(encoding="utf-8", errors="replace").splitlines():
        _, _, _, device, inode, *_ = line.split(maxsplit=5)
        major, minor = device.split(":")
        yield os.makedev(int(major, 16), int(minor, 16)), int(inode)


def _opened(descriptors: Path) -> Iterator[tuple[int, int]]:
    for descriptor in descriptors.iterdir():
        try:
            yield _identity(descriptor.stat())
        except FileNotFoundError:  # closed while we looked
            continue


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:  # gone already, or not ours to remove after all
        return False
    return True
