"""The corpus: in every case the right root cause, and none with confidence in what is healthy."""

import pytest
from corpus_cases import Case, cases

from entrypoint.cause import Cause, Confidence
from entrypoint.verdict.explain import explain

CASES = cases()
HEALTHY = [case for case in CASES if case.expected.healthy]
ENDED = [case for case in CASES if not case.expected.healthy]
SURE = {Confidence.CERTAIN, Confidence.PROBABLE}


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", ENDED, ids=named)
def test_the_root_cause_is_the_right_one(case: Case):
    verdict, expected = explain(case.ends()), case.expected
    assert (verdict.cause, verdict.confidence) == (expected.cause, expected.confidence), verdict.summary
    assert expected.signature in {None, verdict.signature}, verdict.summary
    assert expected.code in {None, int(verdict.code)}
    assert expected.retry in {None, verdict.retry}
    assert expected.root is None or verdict.root.startswith(expected.root)
    assert expected.summary in verdict.summary
    assert all(any(row.startswith(begin) for row in verdict.cascades) for begin in expected.cascades)


@pytest.mark.parametrize("case", HEALTHY, ids=named)
def test_a_healthy_log_is_given_no_cause_with_confidence(case: Case):
    verdict = explain(case.ends())
    if case.expected.cause is Cause.STOPPED:
        assert verdict.cause is Cause.STOPPED
    else:
        assert verdict.confidence not in SURE, verdict.summary


def test_there_are_as_many_healthy_logs_as_it_takes():
    assert len(HEALTHY) >= 20


@pytest.mark.parametrize("case", CASES, ids=named)
def test_what_is_not_sure_has_no_consequences(case: Case):
    verdict = explain(case.ends())
    if verdict.confidence not in SURE:
        assert int(verdict.code) in {70, 75}
