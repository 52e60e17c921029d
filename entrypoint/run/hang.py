"""Hangs: requests run, no token comes, and the processes live on.

Neither processor time nor a living process says anything here: a collective that waits for a lost peer spins. What
counts is what only work moves: the engine's own counters and the batches in its log. SGLang's scheduler answers
``/v1/loads`` between two steps only (0.5.23), so that one long chunk of a prefill makes it silent; a prompt of many
chunks moves the counters with each. ``watch.stall_s`` has to be far longer than one chunk.
"""

from dataclasses import dataclass

from entrypoint.engine.client import EngineLoad, Unavailable

LONGEST_LOOK_S = 30.0
"""How much of the time between two looks counts: a supervisor that was itself stopped has seen nothing meanwhile."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """How long nothing has moved.

    Attributes:
        for_s: Seconds of looking in which nothing did.
        requests: Requests that the engine had when it last said so; None where it never did.
        answers: Whether it answers when it is asked.
    """

    for_s: float
    requests: int | None
    answers: bool


class HangClock:
    """Judges look after look whether a serving engine hangs.

    Args:
        stall_s: Seconds without any movement after which it does; 0 calls nothing a hang.
    """

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._looked_at: float | None = None
        self._still_s = 0.0
        self._load: EngineLoad | None = None
        self._signs = -1

    def look(self, now: float, load: EngineLoad | Unavailable, signs: int) -> Stillness | None:
        """Take one look; return how long nothing has moved where that is a hang, else None.

        Args:
            now: When, by a clock that nobody sets.
            load: What the engine says of its queues.
            signs: How many signs of work its log has shown since it was started.
        """
        since_s = 0.0 if self._looked_at is None else min(now - self._looked_at, LONGEST_LOOK_S)
        self._looked_at = now
        if self._moved(load, signs):
            self._still_s = 0.0
        else:
            self._still_s += since_s
        self._signs = signs
        if isinstance(load, EngineLoad):
            self._load = load
        if not self._stall_s or self._still_s < self._stall_s:
            return None
        requests = None if self._load is None else self._load.running + self._load.waiting
        return Stillness(self._still_s, requests, isinstance(load, EngineLoad))

    def _moved(self, load: EngineLoad | Unavailable, signs: int) -> bool:
        """Return whether anything shows work, or that there is none to do."""
        if signs != self._signs:
            return True
        return isinstance(load, EngineLoad) and (load.running + load.waiting == 0 or load != self._load)
