from hypothesis import given
from hypothesis import strategies as st

from entrypoint.run.deadline import PhaseClock

SECONDS = st.floats(min_value=0.0, max_value=1e6)


def test_a_phase_within_its_deadline_is_not_over_its_limit():
    assert not PhaseClock.start(100, 60, 10).expired(159.9)


def test_a_phase_past_its_deadline_that_moved_lately_is_not_over_its_limit():
    assert not PhaseClock.start(100, 60, 10).progressed(155).expired(164.9)


def test_a_phase_past_its_deadline_that_stands_still_is_over_its_limit():
    assert PhaseClock.start(100, 60, 10).progressed(155).expired(165)


def test_standing_still_before_the_deadline_is_no_matter():
    assert not PhaseClock.start(100, 60, 10).progressed(101).expired(140)


def test_progress_does_not_count_where_there_is_no_stall_time():
    clock = PhaseClock.start(100, 60, None).progressed(159)
    assert not clock.expired(159.9)
    assert clock.expired(160)


@given(began=SECONDS, deadline_s=SECONDS, stall_s=SECONDS, moved_s=SECONDS)
def test_progress_never_shortens_a_phase(began: float, deadline_s: float, stall_s: float, moved_s: float):
    clock = PhaseClock.start(began, deadline_s, stall_s)
    assert clock.progressed(began + moved_s).due_at >= clock.due_at
