import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rank_ends import end, killed, memory

from entrypoint.findings import Finding, Severity
from entrypoint.node.ports import taken_finding
from entrypoint.plan.plan import Plan
from entrypoint.prove.transcript import CheckResult, Failure, FailureKind
from entrypoint.run.endings import (
    Disproved,
    Ending,
    EngineDied,
    Hung,
    MemoryLow,
    PortTaken,
    Refused,
    SpawnFailed,
    Stalled,
    StopAsked,
)
from entrypoint.run.hang import Standstill, Stillness
from entrypoint.run.memory_history import LowMemory
from entrypoint.run.session import judge_run
from entrypoint.run.states import FINAL, SERVING, Effect, Happening, State
from entrypoint.run.supervisor import Event, Supervisor
from entrypoint.verdict.evidence import LogEvidence

InNoTime = Callable[[Coroutine[Any, Any, Any]], Any]

DIED = EngineDied(State.READY, 0, end(phase="ready"))
STOPPED = StopAsked("SIGTERM", State.READY)
STALL = Stalled(State.LOADING, 1, 1, "deadlines.load_s", None)
FAILURE = Failure(FailureKind.NO_CALL, "There is no call.", "Look.", "")
DISPROVED = Disproved(CheckResult((FAILURE,), (), 1.0))
REFUSED = Refused((Finding("a-rule", Severity.ERROR, "It is wrong.", "Mend it."),))
UP = (
    Happening.BEGIN,
    Happening.CHECKED,
    Happening.WARMED,
    Happening.GANG_AGREED,
    Happening.ENGINE_READY,
)
SERVED = (*UP, Happening.PROVED)
REASONS: dict[Happening, Ending] = {
    Happening.CHECK_REFUSED: REFUSED,
    Happening.WARM_FAILED: REFUSED,
    Happening.SPAWN_FAILED: SpawnFailed("No such file or directory"),
    Happening.PORT_TAKEN: PortTaken(State.LOADING, taken_finding("127.0.0.1", 1, "the engine", "engine.port")),
    Happening.DISPROVED: DISPROVED,
    Happening.STALLED: STALL,
    Happening.ENGINE_DIED: DIED,
    Happening.HUNG: Hung(State.READY, Stillness(300, 3, Standstill.TOKENS)),
    Happening.MEMORY_LOW: MemoryLow(State.READY, LowMemory(60.0, 9 << 30, 8 << 30, ())),
    Happening.STOP_ASKED: STOPPED,
    Happening.FORCE_ASKED: STOPPED,
}
"""Why a run would end with a happening, as the one who posts it says."""
POSTED = sorted(set(Happening) - {Happening.ENGINE_DIED_RETRY, Happening.HUNG_RETRY})
"""What can be posted: that an end is worth a retry is judged by the supervisor itself."""


class Run:
    """A supervisor whose effects are noted and not performed."""

    def __init__(self, plan: Plan, around: Any) -> None:
        self.around = around.surroundings()
        self.supervisor = Supervisor(plan, self.around)
        self.performed: list[Effect] = []
        self.supervisor._perform = {effect: (lambda effect=effect: self.performed.append(effect)) for effect in Effect}

    def apply(self, *happenings: Happening) -> State:
        for happening in happenings:
            self.supervisor._apply(Event(happening, REASONS.get(happening)))
        return self.supervisor.state

    def served_once(self) -> None:
        """Let the engine of this generation have been ready."""
        self.supervisor._keeper._generation = SimpleNamespace(
            was_ready=True, tail=tuple, log_evidence=lambda: LogEvidence("server-0.log")
        )  # type: ignore[assignment]


@pytest.fixture
def run(planned: Callable[..., Plan], around: Any) -> Callable[..., Run]:
    """Make a run; ``restart`` and the like are tables of settings."""

    def make(**tables: Any) -> Run:
        return Run(planned(model={"path": "/models/tiny"}, **tables), around)

    return make


# The shell is whole


def test_every_effect_is_performed_by_something(planned: Callable[..., Plan], around: Any):
    async def story() -> None:
        supervisor = Supervisor(planned(), around.surroundings())
        assert set(supervisor._perform) == set(Effect)

    asyncio.run(story())


# What the board shows


def test_the_board_is_ready_exactly_while_the_run_serves(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        life = (*SERVED, Happening.UNWELL, Happening.WELL, Happening.STOP_ASKED, Happening.IDLE, Happening.ENGINE_GONE)
        for happening in life:
            made.apply(happening)
            board = made.around.board
            assert board.ready == (made.supervisor.state in SERVING)
            assert board.state == made.supervisor.state.value
        assert made.supervisor.state is State.STOPPED

    in_no_time(story())


def test_the_board_says_why_it_is_not_ready_or_not_well(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.apply(*UP)
        assert made.around.board.reasons == ("proving",)
        made.apply(Happening.PROVED)
        assert made.around.board.reasons == ()
        made.supervisor._on_trouble("the canary failed")
        made.apply(Happening.UNWELL)
        assert made.around.board.reasons == ("the canary failed",)
        made.supervisor._on_trouble("the engine does not answer")
        assert made.around.board.reasons == ("the engine does not answer",)

    in_no_time(story())


def test_each_change_of_state_is_told_and_a_failing_one_as_an_error(
    in_no_time: InNoTime, run: Callable[..., Run], around: Any
):
    async def story() -> None:
        run().apply(*SERVED, Happening.WELL, Happening.ENGINE_DIED, Happening.ENGINE_GONE)
        told = [(how, details["state"]) for how, event, details in around.told if event == "state"]
        assert told[-3:] == [("tell", "ready"), ("error", "aborting"), ("error", "failed")]

    in_no_time(story())


# Whether a death is worth a retry


def test_a_server_that_served_is_started_again(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.served_once()
        assert made.apply(*SERVED, Happening.ENGINE_DIED) is State.RESTARTING
        assert made.supervisor.ending is None

    in_no_time(story())


def test_an_engine_that_never_served_would_only_die_again(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        assert made.apply(*UP, Happening.ENGINE_DIED) is State.ABORTING

    in_no_time(story())


def test_a_server_that_died_too_often_is_not_started_again(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run(restart={"max": 2, "window_s": 100})
        made.served_once()
        again = (Happening.ENGINE_GONE, Happening.RESTART_DUE, *SERVED[3:])
        for _ in range(2):
            assert made.apply(*SERVED, Happening.ENGINE_DIED) is State.RESTARTING
            made.supervisor._budget.spend(asyncio.get_running_loop().time())
            made.apply(*again)
        await asyncio.sleep(99)
        assert made.apply(Happening.ENGINE_DIED) is State.ABORTING

    in_no_time(story())


def test_a_server_that_died_long_ago_is_started_again(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run(restart={"max": 1, "window_s": 100})
        made.served_once()
        made.supervisor._budget.spend(asyncio.get_running_loop().time())
        await asyncio.sleep(101)
        assert made.apply(*SERVED, Happening.ENGINE_DIED) is State.RESTARTING

    in_no_time(story())


def test_no_server_is_started_again_where_that_is_not_wanted(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run(restart={"max": 0})
        made.served_once()
        assert made.apply(*SERVED, Happening.ENGINE_DIED) is State.ABORTING

    in_no_time(story())


# Why it is over


@pytest.mark.parametrize(
    ("life", "reason"),
    [
        ((Happening.BEGIN, Happening.CHECK_REFUSED), REFUSED),
        ((Happening.BEGIN, Happening.STALLED), STALL),
        ((*UP[:4], Happening.SPAWN_FAILED), REASONS[Happening.SPAWN_FAILED]),
        ((*UP[:4], Happening.STALLED, Happening.ENGINE_DIED, Happening.ENGINE_GONE), STALL),
        ((*UP, Happening.DISPROVED, Happening.ENGINE_DIED, Happening.ENGINE_GONE), DISPROVED),
        ((*UP, Happening.DISPROVED, Happening.STOP_ASKED, Happening.ENGINE_GONE), DISPROVED),
        ((*SERVED, Happening.ENGINE_DIED, Happening.STOP_ASKED, Happening.ENGINE_GONE), DIED),
        ((*SERVED, Happening.STOP_ASKED, Happening.ENGINE_DIED, Happening.ENGINE_GONE), STOPPED),
        ((*SERVED, Happening.STOP_ASKED, Happening.IDLE, Happening.RELEASE_EXPIRED), STOPPED),
    ],
)
def test_the_first_reason_is_the_reason_and_never_the_teardown(
    in_no_time: InNoTime, run: Callable[..., Run], life: tuple[Happening, ...], reason: Ending
):
    async def story() -> None:
        made = run()
        assert made.apply(*life) in FINAL
        assert made.supervisor.ending == reason

    in_no_time(story())


def test_a_death_that_was_to_be_retried_is_the_reason_when_the_restart_cannot_be_made(
    in_no_time: InNoTime, run: Callable[..., Run]
):
    async def story() -> None:
        made = run()
        made.served_once()
        assert made.apply(*SERVED, Happening.ENGINE_DIED, Happening.RELEASE_EXPIRED) is State.FAILED
        assert made.supervisor.ending == DIED
        assert "exit code 1" in judge_run(made.supervisor).summary

    in_no_time(story())


def test_a_stop_during_a_backoff_is_a_stop(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.served_once()
        life = (*SERVED, Happening.ENGINE_DIED, Happening.ENGINE_GONE, Happening.STOP_ASKED, Happening.ENGINE_GONE)
        assert made.apply(*life) is State.STOPPED
        assert made.supervisor.ending == STOPPED

    in_no_time(story())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(happenings=st.lists(st.sampled_from(POSTED), max_size=40), served=st.booleans())
def test_a_run_that_is_over_can_always_say_why(
    in_no_time: InNoTime, run: Callable[..., Run], happenings: list[Happening], *, served: bool
):
    async def story() -> None:
        made = run()
        if served:
            made.served_once()
        made.apply(*happenings)
        if made.supervisor.state in FINAL:
            assert judge_run(made.supervisor).summary
        made.supervisor._works.leave(None)

    in_no_time(story())


# Asked from outside


def test_the_clock_of_a_stop_starts_with_the_first_request(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.supervisor.ask_stop("SIGUSR1")
        asked_at = asyncio.get_running_loop().time()
        await asyncio.sleep(10)
        made.supervisor.ask_stop("SIGTERM")
        clock = made.supervisor._stop_clock
        assert clock is not None
        assert (clock.asked_at, clock.timeout_s) == (asked_at, 25)

    in_no_time(story())


def test_a_request_tells_in_which_state_it_found_the_run(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.apply(*UP)
        made.supervisor.ask_stop("a drain request")
        event = made.supervisor._queue.get_nowait()
        assert event == Event(Happening.STOP_ASKED, StopAsked("a drain request", State.PROVING))

    in_no_time(story())


def test_force_is_noted(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.supervisor.ask_force("a second signal, SIGTERM")
        assert made.supervisor.notes == ("Forced by a second signal, SIGTERM: requests in flight, if any, were lost.",)

    in_no_time(story())


@pytest.mark.parametrize(("ending", "asked"), [(Happening.DISPROVED_HOLD, True), (Happening.PROVED, False)])
def test_a_self_check_can_be_asked_for_where_the_server_is_held(
    in_no_time: InNoTime, run: Callable[..., Run], ending: Happening, *, asked: bool
):
    async def story() -> None:
        made = run()
        made.apply(*UP, ending)
        assert made.supervisor.ask_proof() is asked
        assert made.supervisor._queue.empty() is not asked

    in_no_time(story())


# The loop


def test_a_run_that_was_asked_to_stop_before_it_began_starts_nothing(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.supervisor.ask_stop("SIGTERM")
        await made.supervisor.run()
        assert made.performed == [Effect.FINISH]
        assert made.supervisor.state is State.STOPPED

    in_no_time(story())


def test_a_fault_in_a_background_task_ends_the_loop_with_it(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()

        async def fault() -> None:
            raise ValueError("boom")

        made.supervisor._works.start("check", fault(), frozenset(State))
        with pytest.raises(ValueError, match="boom"):
            await made.supervisor.run()

    in_no_time(story())


def test_a_stall_of_preflight_ends_the_run_with_the_setting_that_bounds_it(
    in_no_time: InNoTime, run: Callable[..., Run]
):
    async def story() -> None:
        made = run(deadlines={"check_s": 7})
        await made.supervisor.run()
        assert made.supervisor.ending == Stalled(
            State.CHECKING, pytest.approx(7), pytest.approx(7), "deadlines.check_s", None
        )
        assert made.supervisor.state is State.FAILED

    in_no_time(story())


def test_the_old_engine_is_gone_before_the_backoff_and_the_restart_is_counted(
    in_no_time: InNoTime, run: Callable[..., Run], around: Any
):
    async def story() -> None:
        made = run(restart={"backoff_s": 10})
        cleared: list[float] = []

        async def clear_up() -> None:
            cleared.append(asyncio.get_running_loop().time())

        made.supervisor._keeper.clear_up = clear_up  # type: ignore[method-assign]
        for pause_s in (0, 10, 20):
            began_at = asyncio.get_running_loop().time()
            await made.supervisor._back_off()
            assert cleared[-1] == began_at
            assert asyncio.get_running_loop().time() - began_at == pytest.approx(pause_s)
            assert made.supervisor._queue.get_nowait() == Event(Happening.RESTART_DUE)
        assert made.around.board.restarts == 3
        assert around.events().count("restart") == 3

    in_no_time(story())


# Hangs, and memory that is about to run out

HUNG = REASONS[Happening.HUNG]
LOW = LowMemory(60.0, 9 << 30, 8 << 30, ("one 400.0 GiB",))


def test_a_server_that_hangs_is_started_again_within_the_budget(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run(restart={"max": 1})
        made.apply(*SERVED)
        made.served_once()
        made.supervisor._apply(Event(Happening.HUNG, HUNG))
        assert made.supervisor.state is State.RESTARTING
        assert made.performed[-2:] == [Effect.WITHDRAW, Effect.KILL]

    in_no_time(story())


def test_a_server_that_hangs_too_often_ends_the_run(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run(restart={"max": 0})
        made.apply(*SERVED)
        made.served_once()
        made.supervisor._apply(Event(Happening.HUNG, HUNG))
        made.apply(Happening.ENGINE_GONE)
        assert made.supervisor.state is State.FAILED
        assert judge_run(made.supervisor).summary.startswith("The engine hung while serving")

    in_no_time(story())


@pytest.mark.parametrize(
    ("happenings", "then"),
    [(SERVED, State.DRAINING), (UP[:-1], State.ABORTING), (UP, State.ABORTING), ((), State.PLANNED)],
)
def test_low_memory_ends_a_run_in_order_where_that_is_wanted(
    in_no_time: InNoTime, run: Callable[..., Run], happenings: tuple[Happening, ...], then: State
):
    async def story() -> None:
        made = run(watch={"on_low_memory": "drain"})
        made.apply(*happenings)
        made.supervisor.on_low_memory(LOW)
        made.supervisor._apply(made.supervisor._queue.get_nowait())
        assert made.supervisor.state is then
        if then is State.DRAINING:
            made.apply(Happening.IDLE, Happening.ENGINE_GONE)
            assert judge_run(made.supervisor).code == 71

    in_no_time(story())


def test_low_memory_is_only_told_where_nothing_else_is_wanted(
    in_no_time: InNoTime, run: Callable[..., Run], around: Any
):
    async def story() -> None:
        made = run()
        made.apply(*SERVED)
        made.supervisor.on_low_memory(LOW)
        made.supervisor.on_low_memory(LOW)
        assert made.supervisor._queue.empty()
        assert [finding.rule for finding in made.supervisor.findings].count("memory-low") == 1
        assert made.around.board.findings[-1]["rule"] == "memory-low"
        assert around.events().count("finding") == 2

    in_no_time(story())


def test_a_death_that_would_only_come_again_is_not_tried_again(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run(restart={"max": 9})
        made.apply(*SERVED)
        made.served_once()
        out_of_memory = EngineDied(State.READY, 0, killed(memory=memory(cgroup_oom_kills=1)))
        made.supervisor._apply(Event(Happening.ENGINE_DIED, out_of_memory))
        assert made.supervisor.state is State.ABORTING

    in_no_time(story())


def test_a_run_that_failed_says_why_until_the_end(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.apply(*UP, Happening.ENGINE_DIED)
        assert made.around.board.reasons[0] == "aborting"
        assert "ended by itself" in made.around.board.reasons[1]
        made.apply(Happening.ENGINE_GONE)
        assert made.around.board.reasons == ("failed", judge_run(made.supervisor).summary)

    in_no_time(story())


def test_a_restart_says_what_it_is_for(in_no_time: InNoTime, run: Callable[..., Run]):
    async def story() -> None:
        made = run()
        made.served_once()
        made.apply(*SERVED, Happening.ENGINE_DIED)
        assert made.around.board.reasons[0] == "restarting"
        assert "ended by itself" in made.around.board.reasons[1]

    in_no_time(story())
