"""How long each state may last, by the settings."""

from dataclasses import dataclass

from entrypoint.run.states import State
from entrypoint.settings.schema import DeadlineSettings

READY_SETTING = "deadlines.ready_s"
"""Dotted name of the setting that bounds the way from the engine's start to ready, whatever progress is seen."""
STOP_RESERVE = 0.2
"""Share of the drain's time that is kept for taking the engine down after the requests in flight."""


@dataclass(frozen=True, slots=True)
class PhaseLimit:
    """The limit of one state.

    Attributes:
        deadline_s: How long it normally takes at most.
        stall_s: How long nothing may progress after that; None where progress does not count.
        setting: Dotted name of the setting that bounds it.
    """

    deadline_s: float
    stall_s: float | None
    setting: str


def phase_limit(state: State, deadlines: DeadlineSettings) -> PhaseLimit | None:
    """Return the limit of a state; None for one that may last."""
    limits = {
        State.CHECKING: PhaseLimit(deadlines.check_s, None, "deadlines.check_s"),
        State.WARMING: PhaseLimit(deadlines.warm_s, None, "deadlines.warm_s"),
        State.STARTING: PhaseLimit(deadlines.start_s, deadlines.stall_s, "deadlines.start_s"),
        State.LOADING: PhaseLimit(deadlines.load_s, deadlines.stall_s, "deadlines.load_s"),
        State.CAPTURING: PhaseLimit(deadlines.capture_s, deadlines.stall_s, "deadlines.capture_s"),
        State.ENGINE_UP: PhaseLimit(deadlines.engine_up_s, deadlines.stall_s, "deadlines.engine_up_s"),
    }
    return limits.get(state)


@dataclass(frozen=True, slots=True)
class StopClock:
    """The time that a stop has, counted from when it was asked for.

    Attributes:
        asked_at: When, in seconds of a monotonic clock.
        timeout_s: How long everything may take.
    """

    asked_at: float
    timeout_s: float

    def for_requests_s(self, now: float) -> float:
        """Seconds left for requests in flight."""
        return max(0.0, self.asked_at + self.timeout_s * (1 - STOP_RESERVE) - now)

    def for_everything_s(self, now: float) -> float:
        """Seconds left until the engine must be gone."""
        return max(0.0, self.asked_at + self.timeout_s - now)
