"""The curve: bounded, and its lows stay."""

import itertools

from entrypoint.verdict.curve import OLD_POINTS, RECENT_POINTS, Curve, thinned
from entrypoint.verdict.evidence import MemoryPoint


def points(count: int, low_at: int | None = None) -> list[MemoryPoint]:
    return [MemoryPoint(float(number), 900, 5 if number == low_at else 500) for number in range(count)]


def test_few_points_stay_as_they_are():
    assert thinned(points(300), 300) == tuple(points(300))
    assert thinned([], 300) == ()


def test_many_are_thinned_evenly_in_order_and_the_last_one_stays():
    found = thinned(points(1000), 100)
    assert len(found) == 100
    assert found[-1].unix_s == 999
    times = [point.unix_s for point in found]
    assert times == sorted(set(times))
    assert max(after - before for before, after in itertools.pairwise(times)) <= 22


def test_a_low_of_one_moment_is_not_lost():
    for low_at in (0, 1, 517, 998):
        assert MemoryPoint(float(low_at), 900, 5) in thinned(points(1000, low_at), 100)


def test_a_curve_of_weeks_takes_little_room_and_keeps_beginning_low_and_present():
    curve = Curve()
    for point in points(50_000, low_at=700):
        curve.add(point)
    whole = curve.points(10_000, until_unix_s=1e9)
    assert len(whole) <= 2 * RECENT_POINTS
    assert whole[0].unix_s < 50_000 / OLD_POINTS * 20
    assert min(point.headroom_bytes for point in whole) == 5
    assert [point.unix_s for point in whole[-RECENT_POINTS:]] == [*map(float, range(49_400, 50_000))]


def test_a_curve_ends_where_it_is_asked_to():
    curve = Curve()
    for point in points(20):
        curve.add(point)
    assert [point.unix_s for point in curve.points(100, until_unix_s=4.5)] == [0, 1, 2, 3, 4]
    assert curve.points(100, until_unix_s=-1) == ()
