"""A memory cgroup of version 1, made for one test on the machine itself."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup/memory")
"""Where the kernel's first version keeps memory, on machines that have it."""
ENTER = 'echo $$ > "$0"; exec "$@"'
"""A line of shell that puts itself into a group and becomes a command."""


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group with a limit.

    Args:
        directory: Where its files are.
    """

    directory: Path

    @property
    def path(self) -> str:
        """The group as the kernel names it."""
        return f"/{self.directory.name}"

    @property
    def processes(self) -> Path:
        """The file that takes a process's id."""
        return self.directory / "cgroup.procs"

    @property
    def oom_kills(self) -> int:
        """How many processes the kernel has killed in it for want of memory."""
        lines = (self.directory / "memory.oom_control").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def entering(self, *command: str) -> tuple[str, ...]:
        """Return a command that runs in the group, with everything that it starts."""
        return ("sh", "-c", ENTER, str(self.processes), *command)


def remove_empty(top: Path) -> None:
    """Remove a group and those below it, as far as nobody lives there."""
    for directory, _, _ in os.walk(top, topdown=False):
        with suppress(OSError):  # somebody does: EBUSY
            Path(directory).rmdir()


def reason_against() -> str | None:
    """Return why no group can be made here; None where it can."""
    if not os.access(MOUNT / "memory.limit_in_bytes", os.W_OK):
        return "memory groups of version 1 cannot be made here"
    return None


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Make a group with a limit, swap included, and remove it when it is empty again."""
    directory = MOUNT / f"supervise-test-{uuid.uuid4().hex[:12]}"
    directory.mkdir()
    try:
        (directory / "memory.limit_in_bytes").write_text(str(limit_bytes))
        with_swap = directory / "memory.memsw.limit_in_bytes"
        if with_swap.exists():
            with_swap.write_text(str(limit_bytes))
        yield MemoryGroup(directory)
    finally:
        directory.rmdir()
