"""How long a phase may go on: its deadline, and the progress that extends it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PhaseClock:
    """The time limit of one phase; a value, moved on by returning a new one.

    A phase is over its limit when its deadline has passed *and* nothing has progressed for ``stall_s``, so that a slow
    load that moves is never killed and a stuck one is given up in bounded time.

    Attributes:
        began_at: When the phase began, in seconds of a monotonic clock.
        deadline_s: How long it normally takes at most.
        stall_s: How long nothing may progress once the deadline has passed; None when progress does not count.
        progressed_at: When progress was last seen.
    """

    began_at: float
    deadline_s: float
    stall_s: float | None
    progressed_at: float

    @classmethod
    def start(cls, now: float, deadline_s: float, stall_s: float | None) -> "PhaseClock":
        """Return the clock of a phase that begins now."""
        return cls(now, deadline_s, stall_s, now)

    def progressed(self, now: float) -> "PhaseClock":
        """Return the clock after progress was seen."""
        return replace(self, progressed_at=now)

    @property
    def due_at(self) -> float:
        """When the phase is over its limit, should nothing progress until then."""
        deadline = self.began_at + self.deadline_s
        return deadline if self.stall_s is None else max(deadline, self.progressed_at + self.stall_s)

    def expired(self, now: float) -> bool:
        """Return whether the phase is over its limit."""
        return now >= self.due_at
