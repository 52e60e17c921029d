import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from entrypoint.run.activity import Activity
from entrypoint.run.endings import Stalled
from entrypoint.run.phase_timer import PhaseTimer
from entrypoint.run.states import COMING_UP, State
from entrypoint.settings.schema import DeadlineSettings

DEADLINES = DeadlineSettings(check_s=50, warm_s=60, start_s=100, load_s=200, stall_s=30, ready_s=1000)
InNoTime = Callable[[Coroutine[Any, Any, None]], None]


class Watch:
    """A timer, the engine that it looks at, and what it said when."""

    def __init__(self, deadlines: DeadlineSettings = DEADLINES) -> None:
        self.loop = asyncio.get_running_loop()
        self.began_at = self.loop.time()
        self.stalls: list[tuple[float, Stalled]] = []
        self.activity: Callable[[], Activity | None] = lambda: None
        self.timer = PhaseTimer(deadlines, look=self._look, on_stall=self.note)

    def _look(self) -> Activity | None:
        return self.activity()

    @property
    def passed_s(self) -> float:
        return self.loop.time() - self.began_at

    def note(self, stalled: Stalled) -> None:
        self.stalls.append((round(self.passed_s, 3), stalled))

    async def pass_until(self, passed_s: float) -> None:
        await asyncio.sleep(self.began_at + passed_s - self.loop.time())


def test_a_phase_that_stands_still_is_over_at_its_deadline_and_says_which_setting_bounds_it(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.timer.enter(State.STARTING)
        await watch.pass_until(99)
        assert watch.stalls == []
        await watch.pass_until(101)
        ((at, stalled),) = watch.stalls
        assert at == 100
        assert stalled == Stalled(State.STARTING, pytest.approx(100), pytest.approx(100), "deadlines.start_s", None)

    in_no_time(story())


def test_a_phase_that_moves_is_not_over_at_its_deadline(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.timer.enter(State.LOADING)
        for moved_at in range(20, 400, 20):
            await watch.pass_until(moved_at)
            watch.timer.progressed(f"{moved_at} shards")
        assert watch.stalls == []
        await watch.pass_until(409)
        assert watch.stalls == []

    in_no_time(story())


def test_a_phase_that_moved_and_stopped_tells_for_how_long_and_what_the_last_sign_was(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.timer.enter(State.LOADING)
        await watch.pass_until(190)
        watch.timer.progressed("3 of 9 shards loaded")
        await watch.pass_until(195)
        watch.timer.progressed(None)
        await watch.pass_until(1000)
        ((at, stalled),) = watch.stalls
        assert at == 225
        assert stalled.progress == "3 of 9 shards loaded"
        assert (stalled.lasted_s, stalled.still_s) == (pytest.approx(225), pytest.approx(30))
        assert stalled.setting == "deadlines.load_s"

    in_no_time(story())


def test_a_silent_engine_that_reads_or_computes_is_not_stalled(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.activity = lambda: Activity(processor_ticks=0, read_bytes=int(watch.passed_s) << 20)
        watch.timer.enter(State.LOADING)
        await watch.pass_until(900)
        assert watch.stalls == []

    in_no_time(story())


def test_a_silent_engine_that_does_nothing_is_given_one_look_and_then_up(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.activity = lambda: Activity(processor_ticks=5000, read_bytes=1 << 40)
        watch.timer.enter(State.LOADING)
        await watch.pass_until(900)
        ((at, stalled),) = watch.stalls
        assert at == 230
        assert stalled.setting == "deadlines.load_s"

    in_no_time(story())


def test_each_phase_gets_a_first_look_of_its_own(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.activity = lambda: Activity(processor_ticks=int(min(watch.passed_s, 120) * 100), read_bytes=0)
        watch.timer.enter(State.STARTING)
        await watch.pass_until(140)
        watch.timer.enter(State.LOADING)
        await watch.pass_until(900)
        assert [at for at, _ in watch.stalls] == [140 + 200 + 30]

    in_no_time(story())


def test_an_engine_must_be_ready_in_the_end_whatever_progress_is_seen(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.timer.enter(State.STARTING)
        await watch.pass_until(90)
        watch.timer.enter(State.LOADING)
        for moved_at in range(100, 1000, 10):
            await watch.pass_until(moved_at)
            watch.timer.progressed(f"{moved_at} shards")
        assert watch.stalls == []
        await watch.pass_until(1001)
        ((at, stalled),) = watch.stalls
        assert at == 1000
        assert (stalled.phase, stalled.setting) == (State.LOADING, "deadlines.ready_s")
        assert stalled.still_s == pytest.approx(10)

    in_no_time(story())


def test_the_time_until_ready_begins_anew_with_a_restart(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        for began_at in (0, 950):
            await watch.pass_until(began_at)
            watch.timer.enter(State.STARTING)
            await watch.pass_until(began_at + 60)
            watch.timer.enter(State.PROVING)
            watch.timer.enter(State.RESTARTING)
        await watch.pass_until(5000)
        assert watch.stalls == []

    in_no_time(story())


def test_progress_does_not_extend_preflight(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.activity = lambda: Activity(processor_ticks=int(watch.passed_s * 100), read_bytes=0)
        watch.timer.enter(State.CHECKING)
        await watch.pass_until(45)
        watch.timer.progressed("looking")
        await watch.pass_until(51)
        assert [(at, stalled.setting) for at, stalled in watch.stalls] == [(50, "deadlines.check_s")]

    in_no_time(story())


@pytest.mark.parametrize("state", sorted(set(State) - COMING_UP - {State.CHECKING, State.WARMING}))
def test_a_state_that_may_last_is_not_timed_and_ends_the_timing_of_the_one_before(in_no_time: InNoTime, state: State):
    async def story() -> None:
        watch = Watch()
        watch.timer.enter(State.LOADING)
        watch.timer.enter(state)
        watch.timer.progressed("late news")
        await watch.pass_until(100_000)
        assert watch.stalls == []

    in_no_time(story())


def test_a_cancelled_timer_says_nothing(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.timer.enter(State.LOADING)
        watch.timer.cancel()
        await watch.pass_until(100_000)
        assert watch.stalls == []

    in_no_time(story())


def test_a_stall_is_told_once(in_no_time: InNoTime):
    async def story() -> None:
        watch = Watch()
        watch.timer.enter(State.LOADING)
        await watch.pass_until(100_000)
        assert len(watch.stalls) == 1

    in_no_time(story())
