"""Whether the engine's processes do anything, for the time in which its log says nothing.

Only the first rank of a server prints loading progress, and an hour of silence is normal for the others: processor
time and reads from disk are progress as well.
"""

from dataclasses import dataclass
from pathlib import Path

from entrypoint.run.warden import descendants

READ_BYTES_THAT_COUNT = 1 << 20
PROCESSOR_TICKS_THAT_COUNT = 100
"""A second of processor time at the usual clock tick."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What the processes below one have done so far.

    Attributes:
        processor_ticks: Processor time in clock ticks, over all processes that live and the ended ones that they have
            waited for, so that a compiler's short-lived processes count.
        read_bytes: Bytes read, page cache included, over the same processes; 0 where the kernel does not count them.
    """

    processor_ticks: int
    read_bytes: int

    def moved_since(self, earlier: "Activity") -> bool:
        """Return whether enough has happened since an earlier look to call it progress."""
        return (
            self.processor_ticks - earlier.processor_ticks >= PROCESSOR_TICKS_THAT_COUNT
            or self.read_bytes - earlier.read_bytes >= READ_BYTES_THAT_COUNT
        )


def look(root: int, proc: Path = Path("/proc")) -> Activity:
    """Return the activity of a process and everything below it.

    Args:
        root: Its process id.
        proc: Where the kernel tells about processes.
    """
    directories = [proc / str(pid) for pid in (root, *descendants(root, str(proc)))]
    return Activity(sum(map(_processor_ticks, directories)), sum(map(_read_bytes, directories)))


def _processor_ticks(directory: Path) -> int:
    """Return user and system time, of the process and of its ended children."""
    try:
        stat = (directory / "stat").read_text()
    except OSError:  # it ended while we looked
        return 0
    return sum(map(int, stat.rpartition(")")[2].split()[11:15]))


def _read_bytes(directory: Path) -> int:
    try:
        io = (directory / "io").read_text()
    except OSError:  # it ended while we looked, belongs to somebody else, or this kernel does not count
        return 0
    return int(io.partition("rchar: ")[2].split()[0])
