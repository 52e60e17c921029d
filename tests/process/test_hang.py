"""A serving engine that hangs: it is noticed, its stacks are taken, and it is started again or ended."""

import stat
import time
from collections.abc import Callable
from functools import partial

import pytest
from fake_switches import Switches
from harness import Supervised, wait_for

StartFake = Callable[..., Supervised]

STUCK = {"loads": {"num_running_reqs": 2, "num_used_tokens": 7, "gen_throughput": 12.5}}
QUICK = ("--watch.stall_s", "2", "--prove.every_s", "0.3")
"""A hang after two seconds, and looks three times a second: no canary sings while requests run."""


@pytest.fixture
def stuck(start_fake: StartFake) -> Callable[..., Supervised]:
    """Start a run whose engine serves, and says that requests run in which nothing ever moves."""

    def start(*arguments: str) -> Supervised:
        return start_fake(*QUICK, *arguments, **STUCK)

    return start


def test_a_hang_ends_the_run_with_a_verdict_and_the_stacks_of_every_process(stuck: Callable[..., Supervised]):
    with stuck("--restart.max", "0") as run:
        assert run.wait() == 75, run.stderr()
        report = run.report()
        assert (report["cause"], report["phase"]) == ("hang", "ready")
        assert "with 2 requests at work" in report["summary"]
        stacks = run.run_directory / "stacks-0-0.txt"
        assert stat.S_IMODE(stacks.stat().st_mode) == 0o600
        assert stacks.read_text().count("== ") >= 3  # main, scheduler, detokenizer
        assert any("sglang::schedul" in line for line in report["evidence"])
        assert any(str(stacks) in note for note in report["notes"])
        run.assert_nothing_left()


def test_an_engine_that_calls_itself_idle_and_never_looks_again_hangs(start_fake: StartFake):
    with start_fake(*QUICK, "--prove.enabled", "false", "--restart.max", "0", loads={"timestamp": 5.0}) as run:
        assert run.wait() == 75, run.stderr()
        assert "its scheduler finished no step" in run.report()["summary"]


def test_a_hung_server_is_started_again_while_the_budget_allows_it(stuck: Callable[..., Supervised]):
    with stuck("--restart.max", "1") as run:
        run.engine.switch(Switches(**STUCK), Switches())  # the second one is well
        run.wait_generation(1)
        run.wait_state("ready")
        assert run.status()["restarts"] == 1
        assert (run.run_directory / "stacks-0-0.txt").exists()


def test_requests_in_which_anything_moves_are_no_hang(start_fake: StartFake):
    with start_fake(*QUICK, **STUCK) as run:
        run.wait_state("ready")
        until = time.monotonic() + 6  # three times what a hang takes
        used = 0
        while time.monotonic() < until:
            used += 1
            run.engine.turn(loads={**STUCK["loads"], "num_used_tokens": used})
            wait_for(partial(has_seen, run, used), 20, "a look")
        assert run.state() == "ready"
        assert run.status()["restarts"] == 0


def has_seen(run: Supervised, used_tokens: int) -> bool:
    load = run.status()["load"]
    return load is not None and load["used_tokens"] == used_tokens


def test_an_idle_server_is_no_hang(start_fake: StartFake):
    with start_fake("--watch.stall_s", "1", "--prove.every_s", "0.3", "--restart.max", "0") as run:
        run.wait_state("ready")
        until = time.monotonic() + 4
        wait_for(lambda: time.monotonic() > until, 20, "a dozen looks")
        assert run.state() == "ready"


def test_nothing_is_called_a_hang_where_that_is_turned_off(start_fake: StartFake):
    with start_fake("--watch.stall_s", "0", "--prove.every_s", "0.2", "--restart.max", "0", **STUCK) as run:
        run.wait_state("ready")
        until = time.monotonic() + 4
        wait_for(lambda: time.monotonic() > until, 20, "a dozen looks")
        assert run.state() == "ready"
