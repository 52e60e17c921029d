"""The timer of the current phase: it goes off when the phase is over its limit and nothing moves."""

import asyncio
from collections.abc import Callable

from entrypoint.run.activity import Activity
from entrypoint.run.deadline import PhaseClock
from entrypoint.run.endings import Stalled
from entrypoint.run.limits import READY_SETTING, PhaseLimit, phase_limit
from entrypoint.run.states import COMING_UP, State
from entrypoint.settings.schema import DeadlineSettings


class PhaseTimer:
    """Times one phase after the other.

    Args:
        deadlines: The ``[deadlines]`` table.
        look: Returns what the engine's processes have done so far, or None where there are none.
        on_stall: Told when a phase is over its limit.
    """

    def __init__(
        self,
        deadlines: DeadlineSettings,
        *,
        look: Callable[[], Activity | None],
        on_stall: Callable[[Stalled], None],
    ) -> None:
        self._deadlines = deadlines
        self._look = look
        self._on_stall = on_stall
        self._handle: asyncio.TimerHandle | None = None
        self._state = State.PLANNED
        self._limit: PhaseLimit | None = None
        self._clock: PhaseClock | None = None
        self._seen: Activity | None = None
        self._progress: str | None = None
        self._coming_up_since: float | None = None

    def enter(self, state: State) -> None:
        """Begin to time a state, and forget the one before."""
        self.cancel()
        now = asyncio.get_running_loop().time()
        if state not in COMING_UP:
            self._coming_up_since = None
        elif self._coming_up_since is None:
            self._coming_up_since = now
        self._state, self._progress, self._seen = state, None, None
        self._limit = phase_limit(state, self._deadlines)
        if self._limit is not None:
            self._clock = PhaseClock.start(now, self._limit.deadline_s, self._limit.stall_s)
            self._schedule(self._clock)

    def progressed(self, progress: str | None) -> None:
        """Note that the log shows progress.

        Args:
            progress: What, in words, where it can be told.
        """
        self._progress = progress or self._progress
        if self._clock is not None:
            self._clock = self._clock.progressed(asyncio.get_running_loop().time())

    def cancel(self) -> None:
        """Time nothing."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._clock = self._limit = None

    @property
    def _ready_at(self) -> float:
        """When the engine must be ready, whatever progress is seen."""
        since = self._coming_up_since
        return float("inf") if since is None else since + self._deadlines.ready_s

    def _schedule(self, clock: PhaseClock) -> None:
        self._handle = asyncio.get_running_loop().call_at(min(clock.due_at, self._ready_at), self._due)

    def _due(self) -> None:
        clock, limit = self._clock, self._limit
        if clock is None or limit is None:
            return
        now = asyncio.get_running_loop().time()
        too_late = now >= self._ready_at
        if not too_late and clock.expired(now) and limit.stall_s is not None and self._engine_moved():
            clock = self._clock = clock.progressed(now)
        if not too_late and not clock.expired(now):
            self._schedule(clock)
            return
        setting = READY_SETTING if too_late else limit.setting
        self._on_stall(Stalled(self._state, now - clock.began_at, now - clock.progressed_at, setting, self._progress))

    def _engine_moved(self) -> bool:
        """Return whether the engine's processes did something since the last look; the first one only begins."""
        seen, self._seen = self._seen, self._look()
        return self._seen is not None and (seen is None or self._seen.moved_since(seen))
