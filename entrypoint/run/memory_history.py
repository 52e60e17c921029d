"""The memory history: what the samples of a run add up to. It reads no clock and starts nothing."""

from collections import deque
from dataclasses import dataclass

from entrypoint.node.memory import MemorySample
from entrypoint.run.oom_counters import OomCounters
from entrypoint.verdict.curve import Curve
from entrypoint.verdict.evidence import MemoryEvidence, MemoryPoint
from entrypoint.verdict.floor import effective_floor_bytes
from entrypoint.verdict.owners import in_words, owners
from entrypoint.verdict.trend import LEAST_POINTS, LOOK_BACK_S, WINDOW_S, Headroom, ended_at_floor, seconds_to_floor

CURVE_POINTS = 300
OWNERS_NAMED = 3
CALM_S = 60.0
"""How long nothing has to point at the floor before another warning can come."""
CALM_FACTOR = 2.0
"""By how much the prediction has to lie beyond the time that is warned of to count as calm."""


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What is known of memory at one moment.

    Attributes:
        sample: The last sample.
        floor_bytes: Headroom at which the end is near.
        seconds_to_floor: When that is reached, if things go on as they do; None where they need not.
        node_oom_kills: Out-of-memory kills on the node since the watch began; None where unknown.
        cgroup_oom_kills: Those in the groups that the engine lives in.
    """

    sample: MemorySample
    floor_bytes: int
    seconds_to_floor: float | None
    node_oom_kills: int | None
    cgroup_oom_kills: int | None


@dataclass(frozen=True, slots=True)
class LowMemory:
    """A warning: memory will run out soon.

    Attributes:
        seconds_to_floor: How soon; 0 where it has.
        headroom_bytes: What is left now.
        floor_bytes: Headroom at which the end is near.
        owners: Who holds most, in words, largest first.
    """

    seconds_to_floor: float
    headroom_bytes: int
    floor_bytes: int
    owners: tuple[str, ...]


class MemoryHistory:
    """Takes samples in; tells how things stand, when to warn, and how memory went until an end.

    Args:
        floor_gib: The setting ``watch.memory_floor_gib``.
        warn_s: How long before the floor is reached a warning comes.
        every_s: Time between two samples.
    """

    def __init__(self, *, floor_gib: float, warn_s: float, every_s: float) -> None:
        self._floor_gib = floor_gib
        self._warn_s = warn_s
        self._window_s = max(WINDOW_S, LEAST_POINTS * every_s)
        self._look_back_s = max(LOOK_BACK_S, 3 * every_s)
        self._curve = Curve()
        self._headroom: deque[Headroom] = deque()
        self._samples: deque[MemorySample] = deque()
        self._counters = OomCounters()
        self._floor_bytes = 0
        self._seconds_to_floor: float | None = None
        self._alarmed_s: float | None = None

    @property
    def headroom_bytes(self) -> int | None:
        """What was left at the last sample; None where nobody saw any."""
        return self._headroom[-1].bytes if self._headroom else None

    def begin_engine(self) -> None:
        """Count kills from here on: an engine is about to start."""
        self._counters.rebase()

    def note(self, sample: MemorySample) -> MemoryState:
        """Take in the next sample; return how things stand."""
        self._counters.note(sample)
        headroom_bytes, limit_bytes = sample.headroom_bytes, sample.limit_bytes
        if sample.node is not None and headroom_bytes is not None and limit_bytes is not None:
            self._floor_bytes = effective_floor_bytes(self._floor_gib, limit_bytes)
            self._curve.add(MemoryPoint(sample.unix_s, sample.node.available_bytes, headroom_bytes))
            self._headroom.append(Headroom(sample.monotonic_s, headroom_bytes))
            self._samples.append(sample)
            self._forget(sample.monotonic_s)
            self._seconds_to_floor = seconds_to_floor(self._headroom, self._floor_bytes, self._window_s)
        return MemoryState(
            sample,
            self._floor_bytes,
            self._seconds_to_floor,
            self._counters.node_since_start,
            self._counters.groups_since_start,
        )

    def _forget(self, now_s: float) -> None:
        while self._headroom[0].at_s < now_s - self._window_s:
            self._headroom.popleft()
        while self._samples[0].monotonic_s < now_s - self._look_back_s:
            self._samples.popleft()

    def warning(self) -> LowMemory | None:
        """Return a warning when one is due after the last sample: one for each time that memory runs out.

        Another one comes only after a minute in which nothing pointed at the floor.
        """
        if not self._headroom:
            return None
        now = self._headroom[-1]
        left_s = self._seconds_to_floor
        if left_s is not None and left_s <= self._warn_s:
            begins = self._alarmed_s is None
            self._alarmed_s = now.at_s
            named = tuple(in_words(owner) for owner in owners(self._samples[-1])[:OWNERS_NAMED])
            return LowMemory(left_s, now.bytes, self._floor_bytes, named) if begins else None
        if self._alarmed_s is not None:
            if left_s is not None and left_s <= CALM_FACTOR * self._warn_s:
                self._alarmed_s = now.at_s
            elif now.at_s - self._alarmed_s >= CALM_S:
                self._alarmed_s = None
        return None

    def evidence(self, ended_unix_s: float) -> MemoryEvidence | None:
        """Return how memory went until an end; None where nobody saw any.

        Args:
            ended_unix_s: When the engine ended. What was seen after that shows in the counters only.
        """
        if not self._samples:
            return None
        points = self._curve.points(CURVE_POINTS, ended_unix_s)
        ended_s = ended_unix_s - self._samples[-1].unix_s + self._samples[-1].monotonic_s
        at_floor = ended_at_floor(self._headroom, self._floor_bytes, ended_s, self._look_back_s)
        last = [sample for sample in self._samples if sample.unix_s <= ended_unix_s] or [self._samples[0]]
        lowest = min(last, key=lambda sample: sample.headroom_bytes or 0)
        if at_floor:  # afterwards memory was free again, which is the end of another story
            points = tuple(point for point in points if point.unix_s <= lowest.unix_s)
        tightest = lowest.tightest
        return MemoryEvidence(
            total_bytes=lowest.node.total_bytes if lowest.node else 0,
            floor_bytes=self._floor_bytes,
            limit_bytes=tightest.limit_bytes if tightest else None,
            limit_of=tightest.path if tightest else None,
            points=points,
            node_oom_kills=self._counters.node,
            cgroup_oom_kills=self._counters.groups,
            at_floor=at_floor,
            owners=owners(lowest),
        )
