from dataclasses import replace

import pytest
from rank_ends import end, hit, killed, memory

from entrypoint.cause import Cause, Confidence
from entrypoint.exit_status import ExitStatus
from entrypoint.run.restarts import RestartBudget, worth_a_restart
from entrypoint.settings.schema import RestartSettings
from entrypoint.verdict.evidence import RankEnd
from entrypoint.verdict.explain import explain

SETTINGS = RestartSettings(max=3, window_s=1000, backoff_s=10)


def test_the_first_restart_is_immediate_and_later_ones_wait_twice_as_long_each():
    budget = RestartBudget(RestartSettings(max=9, window_s=1000, backoff_s=10))
    assert [budget.spend(now) for now in (0, 1, 2, 3, 4)] == [0, 10, 20, 40, 80]


def test_a_budget_is_used_up_after_its_restarts():
    budget = RestartBudget(SETTINGS)
    for now in (0, 1, 2):
        assert budget.allows(now)
        budget.spend(now)
    assert not budget.allows(3)


def test_a_restart_no_longer_counts_after_the_window():
    budget = RestartBudget(SETTINGS)
    for now in (0, 500, 600):
        budget.spend(now)
    assert not budget.allows(999)
    assert budget.allows(1000)


def test_a_restart_after_a_quiet_window_is_immediate_again():
    budget = RestartBudget(SETTINGS)
    budget.spend(0)
    budget.spend(1)
    assert budget.spend(5000) == 0


def test_restarts_are_counted_for_good():
    budget = RestartBudget(SETTINGS)
    for now in (0, 5000, 10_000, 15_000):
        budget.spend(now)
    assert budget.total == 4


def test_asking_does_not_spend():
    budget = RestartBudget(RestartSettings(max=1, window_s=10, backoff_s=10))
    assert all(budget.allows(0) for _ in range(3))


def test_no_restart_is_allowed_where_none_is_wanted():
    assert not RestartBudget(RestartSettings(max=0)).allows(0)


def test_without_a_backoff_no_restart_waits():
    budget = RestartBudget(RestartSettings(max=9, window_s=1000, backoff_s=0))
    assert [budget.spend(now) for now in (0, 1, 2)] == [0, 0, 0]


# What is worth it


@pytest.mark.parametrize(
    ("ended", "worth_it"),
    [
        (end(hit(cause=Cause.CONFIGURATION)), False),
        (end(hit(cause=Cause.CHECKPOINT)), False),
        (end(hit(cause=Cause.PERMISSION)), False),
        (end(hit(cause=Cause.STORAGE)), False),
        (end(hit(cause=Cause.DEVICE)), False),  # not on this node
        (end(hit(cause=Cause.SCHEDULER)), False),
        (killed(memory=memory(cgroup_oom_kills=1)), False),  # memory does not grow by itself
        (end(hit(cause=Cause.HANG)), True),
        (end(hit(cause=Cause.NETWORK)), True),
        (end(hit(cause=Cause.KERNEL)), True),
        (end(status=ExitStatus(None, 11)), True),
        (killed(), True),
        (killed(available_gib=0.5), True),  # a mere possibility is never acted upon
    ],
)
def test_what_served_is_started_again_unless_the_same_would_end_the_same(ended: RankEnd, *, worth_it: bool):
    assert worth_a_restart(explain([ended]), was_ready=True, restarts=5) is worth_it


@pytest.mark.parametrize(
    ("ended", "worth_it"),
    [
        (end(hit(cause=Cause.NETWORK)), True),
        (end(hit(cause=Cause.HANG)), True),
        (end(hit(cause=Cause.KERNEL)), False),
        (killed(), False),
        (end(hit(cause=Cause.CONFIGURATION)), False),
    ],
)
def test_what_never_served_is_tried_again_only_after_what_passes(ended: RankEnd, *, worth_it: bool):
    assert worth_a_restart(explain([ended]), was_ready=False, restarts=0) is worth_it


def test_what_never_served_is_tried_again_once():
    verdict = explain([end(hit(cause=Cause.NETWORK))])
    assert not worth_a_restart(verdict, was_ready=False, restarts=1)


def test_what_is_not_sure_is_no_reason_to_try_what_never_served():
    verdict = replace(explain([end(hit(cause=Cause.NETWORK))]), confidence=Confidence.POSSIBLE)
    assert not worth_a_restart(verdict, was_ready=False, restarts=0)
