from entrypoint.run.restarts import RestartBudget
from entrypoint.settings.schema import RestartSettings

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
