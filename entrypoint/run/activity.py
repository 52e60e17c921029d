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
        processor_ticks: Processor time in clock ticks, over all processes that live.
        read_bytes: Bytes read, page cache included.
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
    """Return the activity below a process."""
    processor_ticks = read_bytes = 0
    for pid in descendants(root):
        try:
            fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            io = (proc / str(pid) / "io").read_text()
        except OSError:  # it ended while we looked, or belongs to somebody else
            continue
        processor_ticks += int(fields[11]) + int(fields[12])
        read_bytes += int(io.partition("rchar: ")[2].split()[0])
    return Activity(processor_ticks, read_bytes)
