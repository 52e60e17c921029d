"""Limits of this process: open files, and the shared memory that ranks of one node talk through."""

import os
import resource
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What this process may use.

    Attributes:
        open_files: Files open at once, as far as it may raise that itself.
        shared_memory_bytes: Size of /dev/shm; None where there is none.
        shared_memory_free_bytes: What is left of it.
    """

    open_files: int
    shared_memory_bytes: int | None
    shared_memory_free_bytes: int | None


def limits(root: Path = Path("/")) -> Limits:
    """Return the limits of this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = hard if hard != resource.RLIM_INFINITY else 1 << 30
    try:
        shared = os.statvfs(f"{root}/dev/shm")  # noqa: S108  # looked at only
    except OSError:
        return Limits(open_files, None, None)
    return Limits(open_files, shared.f_blocks * shared.f_frsize, shared.f_bavail * shared.f_frsize)
