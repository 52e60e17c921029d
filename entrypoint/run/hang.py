"""Hangs: requests run, no token comes, and the processes live on.

Neither processor time nor a living process says anything here: a collective that waits for a lost peer spins. What
counts is what only work moves: the engine's own counters and the batches in its log. Its answer to ``/v1/loads`` is no
proof of life: the main process answers with what the schedulers wrote down at the end of their last step (0.5.23), so
that a scheduler which hangs in its first step looks idle for ever. Only the time of that snapshot tells: a scheduler
that is idle writes a new one all the time.

A step is one chunk of a prefill at the longest: ``watch.stall_s`` has to be far longer than that. Silence is no answer
at all. An engine that answers, although not with its queues, is one of another version, or wants another key, and is
never called hung.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from entrypoint.engine.client import EngineLoad, Fault, Unavailable

LONGEST_LOOK_S = 30.0
"""How much of the time between two looks counts: a supervisor that was itself stopped has seen nothing meanwhile."""
LEAST_LOOKS = 3
"""Looks in a row that must find nothing moved: what a supervisor that was stopped sees on waking is one."""


class Standstill(StrEnum):
    """What stands still."""

    TOKENS = "tokens"
    """It has requests, and none of its counters moves."""
    STEPS = "steps"
    """Its scheduler finishes no step, nor finds itself idle."""
    ANSWERS = "answers"
    """It does not answer at all."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """How long nothing has moved.

    Attributes:
        for_s: Seconds of looking in which nothing did.
        requests: Requests that the engine had when it last said so; None where it never did.
        what: What stands still.
    """

    for_s: float
    requests: int | None
    what: Standstill


class HangClock:
    """Judges look after look whether a serving engine hangs.

    Args:
        stall_s: Seconds without any movement after which it does; 0 calls nothing a hang.
    """

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._looked_at: float | None = None
        self._still_s = 0.0
        self._still_looks = 0
        self._load: EngineLoad | None = None
        self._signs = -1

    def look(self, now: float, load: EngineLoad | Unavailable, signs: int) -> Stillness | None:
        """Take one look; return how long nothing has moved where that is a hang, else None.

        Args:
            now: When, by a clock that nobody sets.
            load: What the engine says of its queues.
            signs: How many signs of work its log has shown since it was started.
        """
        standstill = self._standstill(load, signs)
        since_s = 0.0 if self._looked_at is None else min(now - self._looked_at, LONGEST_LOOK_S)
        self._looked_at = now
        if standstill is None:
            self._still_s, self._still_looks = 0.0, 0
        else:
            self._still_s += since_s
            self._still_looks += 1
        self._signs = signs
        if isinstance(load, EngineLoad):
            self._load = load
        if standstill is None or not self._is_hang():
            return None
        requests = None if self._load is None else self._load.running + self._load.waiting
        return Stillness(self._still_s, requests, standstill)

    def _is_hang(self) -> bool:
        return 0 < self._stall_s <= self._still_s and self._still_looks >= LEAST_LOOKS

    def _standstill(self, load: EngineLoad | Unavailable, signs: int) -> Standstill | None:
        """Return what has not moved since the last look; None where something did, or there is nothing to do."""
        if signs != self._signs:
            return None
        if isinstance(load, Unavailable):
            return Standstill.ANSWERS if load.fault is Fault.UNREACHABLE else None
        before = self._load
        if before is None:
            return None
        if load.snapshot_unix_s is not None and load.snapshot_unix_s == before.snapshot_unix_s:
            return Standstill.STEPS
        idle = load.running + load.waiting == 0
        same = replace(load, snapshot_unix_s=before.snapshot_unix_s) == before
        return Standstill.TOKENS if same and not idle else None
