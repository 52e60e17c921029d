"""The trend: a fall that goes on is told early, and nothing else is."""

import random
from collections.abc import Callable

import pytest

from entrypoint.verdict.floor import effective_floor_bytes
from entrypoint.verdict.trend import Headroom, ended_at_floor, seconds_to_floor

GIB = 1 << 30
FLOOR = 8 * GIB


def seen(headroom_gib: Callable[[float], float], *, seconds: int = 31, every_s: float = 1.0) -> list[Headroom]:
    count = int(seconds / every_s)
    return [Headroom(100 + every_s * number, int(headroom_gib(every_s * number) * GIB)) for number in range(count)]


def noisy(amplitude_gib: float, seed: int = 7) -> Callable[[], float]:
    source = random.Random(seed)
    return lambda: source.uniform(-amplitude_gib, amplitude_gib)


# A fall that goes on


def test_a_steady_fall_is_told_with_its_time():
    left_s = seconds_to_floor(seen(lambda s: 100 - 0.5 * s), FLOOR)
    assert left_s == pytest.approx((85 - 8) / 0.5, rel=0.01)


def test_a_fall_under_noise_is_told_about_right():
    noise = noisy(0.3)
    left_s = seconds_to_floor(seen(lambda s: 100 - 0.5 * s + noise()), FLOOR)
    assert left_s == pytest.approx(154, rel=0.2)


def test_a_fall_that_speeds_up_is_judged_by_its_beginning():
    left_s = seconds_to_floor(seen(lambda s: 100 - 0.02 * s * s), FLOOR)
    assert left_s is not None
    assert left_s > (82 - 8) / 0.8


def test_one_look_that_saw_something_else_hides_no_fall():
    left_s = seconds_to_floor(seen(lambda s: 300 if s in {4, 17, 24} else 100 - 0.5 * s), FLOOR)
    assert left_s == pytest.approx(154, rel=0.1)


def test_slow_looks_over_a_longer_window_tell_it_too():
    points = seen(lambda s: 100 - 0.1 * s, seconds=310, every_s=10)
    assert seconds_to_floor(points, FLOOR, window_s=60) == pytest.approx((70 - 8) / 0.1, rel=0.05)


@pytest.mark.parametrize("left_gib", [8.0, 7.9, 0.0])
def test_at_the_floor_no_trend_is_needed(left_gib: float):
    assert seconds_to_floor([Headroom(0, int(left_gib * GIB))], FLOOR) == 0.0


# Everything else


@pytest.mark.parametrize(
    "headroom_gib",
    [
        lambda _: 20.0,
        lambda s: 20 + s,
        lambda s: 400.0 if s < 25 else 20.0,  # a KV pool, just now
        lambda s: 400.0 if s < 12 else 20.0,
        lambda s: 400.0 if s < 3 else 20.0,
        lambda s: 20.0 + (5 if s % 10 < 5 else 0),
        lambda s: 60 - 2 * s if s < 16 else 30.0,  # loading, ended
        lambda s: 20 - 0.4 * s if s < 20 else 12 + 0.4 * (s - 20),
    ],
    ids=["flat", "rising", "jump late", "jump midway", "jump early", "sawtooth", "loaded", "turned"],
)
def test_what_does_not_go_on_is_no_trend(headroom_gib: Callable[[float], float]):
    assert seconds_to_floor(seen(headroom_gib), FLOOR) is None


@pytest.mark.parametrize("halved_in_s", [1.5, 3, 10, 30, 60])
@pytest.mark.parametrize("seconds", [31, 61, 121, 241])
def test_a_load_that_slows_down_and_ends_above_the_floor_is_no_trend(halved_in_s: float, seconds: int):
    assert seconds_to_floor(seen(lambda s: 40 + 400 * 2 ** (-s / halved_in_s), seconds=seconds), FLOOR) is None


def test_a_fall_that_slows_down_and_yet_reaches_the_floor_is_told():
    left_s = seconds_to_floor(seen(lambda s: 2 + 98 * 2 ** (-s / 30)), FLOOR)
    assert left_s is not None
    assert left_s < 90


def test_a_fall_has_to_be_watched_for_the_whole_window():
    falling = seen(lambda s: 30 - 0.5 * s)
    assert seconds_to_floor(falling[:20], FLOOR) is None
    assert seconds_to_floor(falling[:30], FLOOR) is not None


def test_a_few_points_or_a_gap_are_not_enough():
    falling = seen(lambda s: 30 - 0.5 * s)
    assert seconds_to_floor([], FLOOR) is None
    assert seconds_to_floor(falling[::8], FLOOR) is None
    assert seconds_to_floor([*falling[:4], *falling[-4:]], FLOOR) is None


def test_looks_at_one_moment_show_no_fall():
    assert seconds_to_floor([Headroom(5.0, 9 * GIB)] * 10, FLOOR) is None
    assert not ended_at_floor([Headroom(5.0, size * GIB) for size in (90, 50, 9)], FLOOR, ended_s=6, look_back_s=15)


# The end


def test_headroom_at_the_floor_shortly_before_an_end_was_the_end():
    points = [Headroom(0, 50 * GIB), Headroom(5, 7 * GIB), Headroom(6, 90 * GIB)]
    assert ended_at_floor(points, FLOOR, ended_s=7, look_back_s=15)
    assert not ended_at_floor(points, FLOOR, ended_s=30, look_back_s=15)
    assert not ended_at_floor(points, FLOOR, ended_s=4, look_back_s=15)


def test_a_fall_that_had_no_time_to_be_seen_at_the_floor_counts():
    falling = [Headroom(0, 70 * GIB), Headroom(1, 50 * GIB), Headroom(2, 25 * GIB)]
    assert ended_at_floor(falling, FLOOR, ended_s=2.9, look_back_s=15)
    assert not ended_at_floor(falling, FLOOR, ended_s=2.1, look_back_s=15)


def test_what_was_seen_after_the_end_is_of_no_account():
    falling = [Headroom(0, 70 * GIB), Headroom(1, 50 * GIB), Headroom(2, 25 * GIB), Headroom(3, 400 * GIB)]
    assert ended_at_floor(falling, FLOOR, ended_s=2.9, look_back_s=15)


def test_one_jump_before_an_end_is_no_fall():
    jump = [Headroom(0, 70 * GIB), Headroom(1, 70 * GIB), Headroom(2, 25 * GIB)]
    assert not ended_at_floor(jump, FLOOR, ended_s=2.9, look_back_s=15)
    assert not ended_at_floor(jump[1:], FLOOR, ended_s=2.9, look_back_s=15)
    assert not ended_at_floor([], FLOOR, ended_s=2.9, look_back_s=15)


# The floor


@pytest.mark.parametrize(
    ("setting_gib", "limit_bytes", "expected"),
    [
        (8, 512 * GIB, 8 * GIB),
        (8, 64 * GIB, 8 * GIB),
        (8, 64 * GIB - 1, int((64 * GIB - 1) * 0.05)),
        (8, 16 * GIB, int(0.8 * GIB)),
        (0.5, 16 * GIB, GIB // 2),
    ],
)
def test_the_floor_is_the_settings_and_less_where_memory_is_small(setting_gib: float, limit_bytes: int, expected: int):
    assert effective_floor_bytes(setting_gib, limit_bytes) == expected
