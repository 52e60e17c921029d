import pytest

from entrypoint.run.limits import PhaseLimit, StopClock, phase_limit
from entrypoint.run.states import COMING_UP, State
from entrypoint.settings.schema import DeadlineSettings, Settings

DEADLINES = DeadlineSettings(stall_s=7)
TIMED = COMING_UP | {State.CHECKING, State.WARMING}


@pytest.mark.parametrize("state", sorted(TIMED))
def test_the_limit_of_a_state_names_a_setting_that_exists_and_has_its_value(state: State):
    limit = phase_limit(state, DEADLINES)
    assert limit is not None
    table, _, name = limit.setting.partition(".")
    assert limit.deadline_s == getattr(getattr(Settings(), table), name)


@pytest.mark.parametrize("state", sorted(COMING_UP))
def test_progress_counts_while_the_engine_comes_up(state: State):
    limit = phase_limit(state, DEADLINES)
    assert limit is not None
    assert limit.stall_s == 7


@pytest.mark.parametrize("state", [State.CHECKING, State.WARMING])
def test_progress_does_not_count_before_the_engine(state: State):
    assert phase_limit(state, DEADLINES) == PhaseLimit(
        {State.CHECKING: 120.0, State.WARMING: 3600.0}[state],
        None,
        {State.CHECKING: "deadlines.check_s", State.WARMING: "deadlines.warm_s"}[state],
    )


@pytest.mark.parametrize("state", sorted(set(State) - TIMED))
def test_every_other_state_may_last(state: State):
    assert phase_limit(state, DEADLINES) is None


def test_requests_in_flight_get_most_of_a_stop_and_the_engine_the_rest():
    clock = StopClock(asked_at=100, timeout_s=25)
    assert clock.for_requests_s(100) == pytest.approx(20)
    assert clock.for_everything_s(100) == 25


def test_the_time_of_a_stop_runs_from_when_it_was_asked_and_never_below_nothing():
    clock = StopClock(asked_at=100, timeout_s=25)
    assert clock.for_everything_s(110) == 15
    assert clock.for_requests_s(500) == 0
    assert clock.for_everything_s(500) == 0
