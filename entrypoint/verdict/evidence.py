"""Evidence: what is known of the end of one rank, from its log, its memory and its exit status."""

from dataclasses import dataclass

from entrypoint.engine.signature import SignatureHit
from entrypoint.exit_status import ExitStatus


@dataclass(frozen=True, slots=True)
class ChildDeath:
    """A process of the engine that ended, as the engine's own log tells it.

    Attributes:
        name: The process, such as ``scheduler_0``.
        status: How it ended.
        line: The line that says so.
        number: Number of that line, from 1.
        unix_s: When, by the log's time stamps; None where there are none.
    """

    name: str
    status: ExitStatus
    line: str
    number: int
    unix_s: float | None = None


@dataclass(frozen=True, slots=True)
class LogPhase:
    """A phase whose first sign stands in a log.

    Attributes:
        name: ``starting``, ``loading``, ``capturing``, ``engine-up`` or ``ready``.
        number: Number of the line that shows it, from 1.
        unix_s: When, by the log's time stamps; None where there are none.
    """

    name: str
    number: int
    unix_s: float | None = None


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """What an engine's log holds about its end.

    Attributes:
        name: The file, as people know it.
        hits: Lines that bear a signature, in the log's order; of one signature the first few and the last.
        child_deaths: Processes that the engine says have ended badly.
        phases: The phases that its lines show, in their order.
        stop_line: Number of the first line that says that it was asked to end (SIGTERM) or drains; None without one.
        available_gib: The last memory figure that it printed.
        telling: The last line that names an error, such as the end of a traceback; None when no line near the end
            does.
        tail: Its last lines, oldest first.
        lines: How many lines it has.
        began_unix_s: Its first time stamp.
        ended_unix_s: Its last time stamp.
        node_rank: Which rank its engine says it is; None where it does not say.
        cut: Its beginning or its end is missing, or parts of it could not be read.
    """

    name: str
    hits: tuple[SignatureHit, ...] = ()
    child_deaths: tuple[ChildDeath, ...] = ()
    phases: tuple[LogPhase, ...] = ()
    stop_line: int | None = None
    available_gib: float | None = None
    telling: str | None = None
    tail: tuple[str, ...] = ()
    lines: int = 0
    began_unix_s: float | None = None
    ended_unix_s: float | None = None
    node_rank: int | None = None
    cut: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """Memory at one moment.

    Attributes:
        unix_s: When.
        available_bytes: What the node could still give (MemAvailable).
        headroom_bytes: What the engine could still get: the least of that and of every cgroup's limit less its use.
    """

    unix_s: float
    available_bytes: int
    headroom_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryOwner:
    """Who holds memory.

    Attributes:
        name: A process's name, ``page cache``, ``shared memory and tmpfs`` and the like.
        bytes: How much.
        pid: Process id, where it is a process.
    """

    name: str
    bytes: int
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryEvidence:
    """How memory went until the end.

    Attributes:
        total_bytes: Memory of the node.
        limit_bytes: The smallest limit of the cgroups that the engine lives in; None without one.
        limit_of: Path of that cgroup.
        floor_bytes: Headroom at which the end is near (``watch.memory_floor_gib``).
        points: The curve, oldest first, thinned out to some hundreds.
        node_oom_kills: By how much ``oom_kill`` of /proc/vmstat has risen since the start; None where unknown.
        cgroup_oom_kills: By how much the counters of the engine's cgroups have risen; None where unknown.
        at_floor: The headroom was at or below the floor, or the trend of the last seconds had reached it, at the end.
        owners: Who held most at the last look, largest first.
    """

    total_bytes: int
    floor_bytes: int
    limit_bytes: int | None = None
    limit_of: str | None = None
    points: tuple[MemoryPoint, ...] = ()
    node_oom_kills: int | None = None
    cgroup_oom_kills: int | None = None
    at_floor: bool = False
    owners: tuple[MemoryOwner, ...] = ()


@dataclass(frozen=True, slots=True)
class RankEnd:
    """What is known of the end of one rank.

    Attributes:
        rank: Its number.
        phase: The state it ended in, in words; empty where unknown.
        was_ready: It had served, or could have.
        status: How the engine's main process ended; None where nobody saw.
        log: What its log says.
        memory: How memory went; None where nobody looked.
        lived_s: How long the engine lived; None where unknown.
        unasked: It is known that the supervisor did not ask it to end.
    """

    rank: int
    phase: str
    log: LogEvidence
    was_ready: bool = False
    status: ExitStatus | None = None
    memory: MemoryEvidence | None = None
    lived_s: float | None = None
    unasked: bool = False
