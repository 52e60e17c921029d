"""Memory samples: everything that matters about the node's memory at one moment.

Whom to look at changes seldom and is found separately, since that is the costly part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from entrypoint.node.apu_memory import ApuMemory, apu_memory
from entrypoint.node.cgroup import Cgroup, CgroupMemory, group_memory, groups_of, merged
from entrypoint.node.meminfo import NodeMemory, NumaMemory, node_memory, numa_memory
from entrypoint.node.pressure import Pressure, memory_pressure, node_oom_kills
from entrypoint.node.processes import ProcessMemory, descendants, process_memory, process_name


@dataclass(frozen=True, slots=True)
class Subjects:
    """Whom to look at.

    Attributes:
        processes: The engine's processes, by id, with their names.
        groups: The groups that they live in and all above those; without processes those of this process.
    """

    processes: Mapping[int, str]
    groups: tuple[Cgroup, ...]


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Memory at one moment.

    Attributes:
        unix_s: When.
        monotonic_s: The same, by a clock that nobody sets.
        node: The whole node; None where it cannot be read.
        numa: Each NUMA node.
        apus: Each GPU.
        groups: Each group that limits or counts, the innermost first.
        pressure: How much memory is waited for; None where that is not measured.
        oom_kills: Processes that the kernel has killed since it started; None where unknown.
        processes: The engine's.
    """

    unix_s: float
    monotonic_s: float
    node: NodeMemory | None
    numa: tuple[NumaMemory, ...] = ()
    apus: tuple[ApuMemory, ...] = ()
    groups: tuple[CgroupMemory, ...] = ()
    pressure: Pressure | None = None
    oom_kills: int | None = None
    processes: tuple[ProcessMemory, ...] = ()

    @property
    def headroom_bytes(self) -> int | None:
        """What the engine could still get: the least of the node's available memory and of every group's headroom."""
        if self.node is None:
            return None
        limited = (group.headroom_bytes for group in self.groups)
        return min(self.node.available_bytes, *(each for each in limited if each is not None), self.node.total_bytes)

    @property
    def tightest(self) -> CgroupMemory | None:
        """The group with the smallest limit; None where none has one."""
        limited = [group for group in self.groups if group.limit_bytes is not None]
        return min(limited, key=lambda group: group.limit_bytes or 0, default=None)

    @property
    def limit_bytes(self) -> int | None:
        """What this node and its groups allow at all; None where the node tells nothing."""
        if self.node is None:
            return None
        tightest = self.tightest
        limit_bytes = tightest.limit_bytes if tightest else None
        return self.node.total_bytes if limit_bytes is None else min(self.node.total_bytes, limit_bytes)

    @property
    def engine_bytes(self) -> int:
        """What ends with the engine's processes; memory of the GPUs, page cache and shared memory come on top."""
        return sum(process.private_bytes for process in self.processes)


def find_subjects(pid: int | None, root: Path = Path("/"), before: Subjects | None = None) -> Subjects:
    """Return whom to look at.

    Args:
        pid: The process below which the engine's are; None before there is one.
        root: Where /proc and /sys are.
        before: What an earlier look found. Its groups stay when the processes have ended: whether they were killed is
            told there.
    """
    known = before.processes if before else {}
    pids = () if pid is None else descendants(pid, root)
    processes = {each: process_name(each, root, known) for each in pids}
    if processes:
        return Subjects(processes, merged(tuple({groups_of(each, root): None for each in processes})))
    if pid is not None and before is not None:
        return Subjects(processes, before.groups)
    return Subjects(processes, groups_of(None, root))


def take_sample(subjects: Subjects, unix_s: float, monotonic_s: float, root: Path = Path("/")) -> MemorySample:
    """Look once at everything.

    The node's counter of kills is read before those of the groups: a kill that comes between the two is then seen in
    its group, and never as one of a stranger on the node.

    Args:
        subjects: Whom to look at.
        unix_s: The time by both clocks.
        monotonic_s: The same.
        root: Where /proc and /sys are.
    """
    kills = node_oom_kills(root)
    groups = map(group_memory, subjects.groups)
    processes = (process_memory(pid, name, root) for pid, name in subjects.processes.items())
    return MemorySample(
        unix_s,
        monotonic_s,
        node_memory(root),
        numa_memory(root),
        apu_memory(root),
        tuple(group for group in groups if group is not None),
        memory_pressure(root),
        kills,
        tuple(process for process in processes if process is not None),
    )
