"""When a serving engine hangs, and when it only looks like it."""

from dataclasses import replace

import pytest

from entrypoint.engine.client import EngineLoad, Fault, Unavailable
from entrypoint.run.hang import LONGEST_LOOK_S, HangClock, Stillness

BUSY = EngineLoad(2, 1, 500, 1000, 0.5, 30.0, 0.0)
IDLE = EngineLoad(0, 0, 500, 1000, 0.5, 0.0, 0.0)
SILENT = Unavailable(Fault.UNREACHABLE, "GET /v1/loads failed: ReadTimeout.")


def looks(clock: HangClock, *loads: EngineLoad | Unavailable, every_s: float = 5.0, signs: int = 0) -> list[Stillness]:
    """Return what a clock finds in looks at regular times."""
    found = (clock.look(place * every_s, load, signs) for place, load in enumerate(loads))
    return [still for still in found if still is not None]


def test_requests_without_any_movement_are_a_hang_after_the_time_for_it():
    (first, *_) = looks(HangClock(60), *[BUSY] * 20)
    assert first == Stillness(60.0, 3, answers=True)


def test_an_engine_that_stops_answering_hangs_with_the_requests_that_it_had():
    (first, *_) = looks(HangClock(60), BUSY, *[SILENT] * 20)
    assert first == Stillness(60.0, 3, answers=False)


def test_an_engine_that_never_answered_hangs_with_nobody_knows_how_many():
    (first, *_) = looks(HangClock(60), *[SILENT] * 20)
    assert first == Stillness(60.0, None, answers=False)


def test_an_idle_engine_that_stops_answering_hangs_as_well():
    assert looks(HangClock(60), IDLE, *[SILENT] * 20)[0].requests == 0


def test_an_idle_engine_never_hangs():
    assert looks(HangClock(60), *[IDLE] * 100) == []


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
    assert clock.look(100_000 + 60 - LONGEST_LOOK_S, BUSY, 0) is not None


def test_nothing_is_called_a_hang_where_that_is_turned_off():
    assert looks(HangClock(0), *[BUSY] * 1000) == []
