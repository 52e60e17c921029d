"""When a serving engine hangs, and when it only looks like it."""

from dataclasses import replace

import pytest

from entrypoint.engine.client import EngineLoad, Fault, Unavailable
from entrypoint.run.hang import LEAST_LOOKS, LONGEST_LOOK_S, HangClock, Standstill, Stillness

BUSY = EngineLoad(2, 1, 500, 1000, 0.5, 30.0, 0.0)
IDLE = EngineLoad(0, 0, 500, 1000, 0.5, 0.0, 0.0)
SILENT = Unavailable(Fault.UNREACHABLE, "GET /v1/loads failed: ReadTimeout.")


def looks(clock: HangClock, *loads: EngineLoad | Unavailable, every_s: float = 5.0, signs: int = 0) -> list[Stillness]:
    """Return what a clock finds in looks at regular times."""
    found = (clock.look(place * every_s, load, signs) for place, load in enumerate(loads))
    return [still for still in found if still is not None]


def test_requests_without_any_movement_are_a_hang_after_the_time_for_it():
    (first, *_) = looks(HangClock(60), *[BUSY] * 20)
    assert first == Stillness(60.0, 3, Standstill.TOKENS)


def test_an_engine_that_stops_answering_hangs_with_the_requests_that_it_had():
    (first, *_) = looks(HangClock(60), BUSY, *[SILENT] * 20)
    assert first == Stillness(60.0, 3, Standstill.ANSWERS)


def test_an_engine_that_never_answered_hangs_with_nobody_knows_how_many():
    (first, *_) = looks(HangClock(60), *[SILENT] * 20)
    assert first == Stillness(60.0, None, Standstill.ANSWERS)


def test_an_idle_engine_that_stops_answering_hangs_as_well():
    assert looks(HangClock(60), IDLE, *[SILENT] * 20)[0].requests == 0


@pytest.mark.parametrize("fault", [Fault.ABSENT, Fault.DENIED, Fault.ERROR, Fault.NONSENSE])
def test_an_engine_that_answers_something_else_is_not_silent(fault: Fault):
    assert looks(HangClock(60), *[Unavailable(fault, "GET /v1/loads answered 404.")] * 100) == []


def test_an_idle_engine_never_hangs():
    assert looks(HangClock(60), *[IDLE] * 100) == []
    assert looks(HangClock(60), *[replace(IDLE, snapshot_unix_s=float(look)) for look in range(100)]) == []


def test_an_engine_that_hangs_in_its_first_step_says_that_it_is_idle_and_grows_no_younger():
    (first, *_) = looks(HangClock(60), *[replace(IDLE, snapshot_unix_s=5.0)] * 20)
    assert first == Stillness(60.0, 0, Standstill.STEPS)


def test_requests_that_stand_still_are_a_hang_although_the_engine_finds_that_anew_each_time():
    (first, *_) = looks(HangClock(60), *[replace(BUSY, snapshot_unix_s=float(look)) for look in range(20)])
    assert first == Stillness(60.0, 3, Standstill.TOKENS)


@pytest.mark.parametrize(
    "change",
    [{"used_tokens": 501}, {"running": 3}, {"waiting": 0}, {"gen_throughput": 30.1}],
)
def test_any_counter_that_moves_is_work(change: dict[str, float]):
    moved = replace(BUSY, **change)
    assert looks(HangClock(60), *[BUSY] * 11, *[moved] * 11, *[BUSY] * 11) == []


def test_a_sign_in_the_log_is_work_although_the_engine_does_not_answer():
    clock = HangClock(60)
    assert all(clock.look(place * 5.0, SILENT, place // 10) is None for place in range(200))


def test_a_hang_is_called_one_as_long_as_it_lasts_and_no_longer():
    clock = HangClock(60)
    assert looks(clock, *[BUSY] * 20)
    assert clock.look(200.0, replace(BUSY, used_tokens=900), 0) is None


def test_the_time_in_which_the_supervisor_itself_was_stopped_does_not_count():
    clock = HangClock(60)
    assert clock.look(0, BUSY, 0) is None
    assert clock.look(100_000, BUSY, 0) is None
    assert clock.look(100_010, BUSY, 0) is None
    assert clock.look(100_000 + 60 - LONGEST_LOOK_S, BUSY, 0) is not None


def test_what_a_supervisor_sees_on_waking_is_no_hang_however_short_the_time_for_one():
    clock = HangClock(10)
    assert clock.look(0, SILENT, 0) is None
    assert [clock.look(1000 + place, SILENT, 0) is None for place in range(LEAST_LOOKS)][-2:] == [True, False]


def test_nothing_is_called_a_hang_where_that_is_turned_off():
    assert looks(HangClock(0), *[BUSY] * 1000) == []
