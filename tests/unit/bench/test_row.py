import pytest

from bench.record import Record
from bench.row import Kind, Measurement, Row


def row(measured: Measurement, peer: Measurement | None, limit: float | None, kind: Kind) -> Row:
    return Row("something", measured, "s", peer, "a peer", limit, kind)


def of(*samples: float) -> Measurement:
    return Measurement(samples)


UNKNOWN = Measurement((1.0, 1.0), "the machine was on fire")


@pytest.mark.parametrize(
    ("kind", "kept", "broken"),
    [
        (Kind.AT_MOST, (of(1.0, 2.0, 9.0), None, 2.0), (of(1.0, 2.1, 9.0), None, 2.0)),
        (Kind.AT_LEAST, (of(1.0, 2.0, 9.0), None, 2.0), (of(1.0, 1.9, 9.0), None, 2.0)),
        (Kind.RATIO, (of(4.0), of(2.0), 2.0), (of(4.1), of(2.0), 2.0)),
    ],
)
def test_a_promise_is_kept_up_to_its_limit_by_the_median_and_broken_beyond(kind: Kind, kept: tuple, broken: tuple):
    assert row(*kept, kind).ok
    assert not row(*broken, kind).ok


@pytest.mark.parametrize("kind", Kind)
def test_what_was_not_measured_is_broken_whatever_else_is_known(kind: Kind):
    assert not row(UNKNOWN, of(1.0), 1.0, kind).ok
    assert not row(of(1.0), UNKNOWN, 1.0, kind).ok
    assert row(of(1.0), of(1.0), 1.0, kind).ok


def test_a_ratio_to_nothing_is_no_ratio_and_breaks_the_promise():
    compared = row(of(1.0), of(0.0), 2.0, Kind.RATIO)
    assert compared.ratio is None
    assert not compared.ok


def test_a_row_that_only_shows_breaks_nothing():
    assert row(of(1e9), None, None, Kind.SHOWN).ok


def test_one_failure_spoils_a_series_and_not_its_neighbour():
    record = Record({"good", "bad"})
    for _ in range(2):
        record.add("good", 1.0)
        record.add("bad", 1.0)
    record.fail("bad", "round 2: it broke")
    assert record.measurement("good").median == 1.0
    assert record.measurement("bad").median is None
    assert record.wants("bad", "good")
    assert not record.wants("bad")


def test_a_series_without_a_number_says_so():
    assert Record({"never"}).measurement("never").reason
