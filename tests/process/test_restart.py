"""An engine that dies: a report that says how and where, and another start where it had served."""

import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from harness import Supervised
from stage import Stage, playing

from entrypoint.run.keeper import KILL_S

pytestmark = pytest.mark.process
Played = Mapping[str, Future[Supervised]]


@dataclass(frozen=True)
class Death:
    """A death of an engine that never served.

    Attributes:
        at: The engine's phase.
        by: How it comes.
        phase: The run's state then.
        status: How the report names it.
        words: The engine's last words.
        quoted: What the report says of them; the words themselves by default.
        code: The run's exit code.
        cause: What the report calls the kind of its cause.
        more: More faults.
    """

    at: str
    by: str
    phase: str
    status: str
    words: str = ""
    quoted: str = ""
    code: int = 70
    cause: str = "unknown"
    more: Mapping[str, Any] = field(default_factory=dict)


REFUSAL = "sglang serve: error: argument --dtype: invalid choice: 'fp7'"
DIED = "Rank 0 scheduler died during initialization"
DEATHS = {
    "an exception at once": Death("start", "exit 1", "starting", "exit code 1", "ImportError: libodd.so.1"),
    "a refused flag": Death(
        "start", "exit 2", "starting", "exit code 2", REFUSAL, quoted="'fp7' of --dtype", code=78, cause="configuration"
    ),
    "exit code 2 without a refusal": Death("start", "exit 2", "starting", "exit code 2", "ValueError: something else"),
    "a scheduler lost early": Death("init", "scheduler SIGKILL", "starting", "exit code 1", quoted=DIED),
    "a segmentation fault": Death("load", "SIGSEGV", "loading", "signal SIGSEGV", cause="engine"),
    "a scheduler's exception": Death(
        *("load", "scheduler exception", "loading", "signal SIGKILL", "RuntimeError: HIP out of memory"),
        quoted="device allocation failed",
        code=71,
        cause="memory",
    ),
    "an abort": Death("capture", "SIGABRT", "capturing", "signal SIGABRT", "KeyError: no room", cause="engine"),
    "an odd exit code": Death("up", "exit 42", "engine-up", "exit code 42", "OSError: [Errno 5] odd"),
    "a clean exit": Death("warmup", "exit 0", "engine-up", "exit code 0"),
    "killed with deaf helpers": Death("warmup", "SIGKILL", "engine-up", "SIGKILL", more={"children_stay": True}),
}


def die(stage: Stage, name: str) -> Supervised:
    death = DEATHS[name]
    with stage.make(ends_at=death.at, ends_by=death.by, last_words=death.words, **death.more) as run:
        assert run.wait() == death.code
        run.assert_nothing_left()
    return run


def end_cleanly_while_serving(stage: Stage) -> Supervised:
    """Have the engine end with 0 although nobody asked for it."""
    with stage.make("--restart.max", "0") as run:
        run.wait_state("ready")
        run.main.send_signal(signal.SIGTERM)
        assert run.wait() == 70
        run.assert_nothing_left()
    return run


def die_twice(stage: Stage) -> Supervised:
    """Kill a serving engine's scheduler twice, where one restart is allowed."""
    with stage.make("--restart.max", "1", orphan=True) as run:
        run.wait_state("ready")
        first = {pid for pids in run.engine.processes().values() for pid in pids}
        os.kill(scheduler(run), signal.SIGKILL)
        run.wait_generation(1)
        second = {pid for pids in run.engine.processes().values() for pid in pids}
        assert not first & second
        assert run.status()["restarts"] == 1
        assert (run.run_directory / "endpoint.json").exists()
        os.kill(scheduler(run), signal.SIGKILL)
        assert run.wait() == 70
        run.assert_nothing_left()
    return run


def come_back_after_a_pause(stage: Stage) -> Supervised:
    """Kill a serving engine twice; its second restart waits longer than a killed engine may take to be gone."""
    with stage.make("--restart.backoff_s", str(KILL_S + 1)) as run:
        for generation in (1, 2):
            run.wait_state("ready")
            run.main.kill()
            run.wait_generation(generation, within_s=90)
        run.wait_state("ready")
        run.signal(signal.SIGTERM)
        assert run.wait() == 0
        run.assert_nothing_left()
    return run


def scheduler(run: Supervised) -> int:
    (pid,) = run.engine.processes()["sglang::schedul"]
    return pid


def fail_to_come_back(stage: Stage) -> Supervised:
    """Kill a serving engine that cannot start again, where many restarts are allowed."""
    with stage.make("--restart.max", "9") as run:
        run.wait_state("ready")
        run.engine.turn(ends_at="load", ends_by="exit 7")
        run.main.kill()
        assert run.wait() == 70
        run.assert_nothing_left()
    return run


@pytest.fixture(scope="module")
def played(stage: Stage) -> Iterator[Played]:
    stories = (come_back_after_a_pause, die_twice, end_cleanly_while_serving, fail_to_come_back)
    deaths = {name: partial(die, stage, name) for name in DEATHS}
    with playing({story.__name__: partial(story, stage) for story in stories} | deaths) as runs:
        yield runs


@pytest.mark.parametrize("name", DEATHS)
def test_a_death_is_told_with_phase_status_and_last_words(played: Played, name: str):
    run, death = played[name].result(), DEATHS[name]
    report = run.report()
    assert report["phase"] == death.phase
    assert death.status in report["summary"]
    quoted = death.quoted or death.words
    assert (quoted or "Its log does not say why") in report["summary"]
    assert (death.words or quoted) in "\n".join(report["evidence"])
    assert report["cause"] == death.cause


@pytest.mark.parametrize("name", DEATHS)
def test_a_server_that_never_was_ready_is_not_started_again(played: Played, name: str):
    assert len(played[name].result().engine.starts()) == 1


def test_a_clean_exit_that_nobody_asked_for_is_a_death(played: Played):
    report = played["end_cleanly_while_serving"].result().report()
    assert "ended by itself while serving" in report["summary"]
    assert "exit code 0" in report["summary"]


def test_a_server_that_served_is_started_again_as_often_as_allowed(played: Played):
    run = played["die_twice"].result()
    assert len(run.engine.starts()) == 2
    assert [state for state in run.states() if state in {"ready", "restarting", "failed"}] == [
        *("ready", "restarting", "ready", "failed"),
    ]
    assert "while serving" in run.report()["summary"]
    assert "crashed with exit code -9" in "\n".join(run.report()["evidence"])


def test_a_pause_before_a_restart_is_waited_for_however_long(played: Played):
    run = played["come_back_after_a_pause"].result()
    assert len(run.engine.starts()) == 3
    assert "failed" not in run.states()
    assert run.report()["notes"] == []


def test_both_starts_are_in_one_log(played: Played):
    log = (played["die_twice"].result().run_directory / "server-0.log").read_text()
    assert log.count("The server is fired up and ready to roll!") == 2


def test_a_server_that_cannot_come_back_is_not_tried_again(played: Played):
    run = played["fail_to_come_back"].result()
    assert len(run.engine.starts()) == 2
    assert run.report()["phase"] == "loading"
    assert "exit code 7" in run.report()["summary"]
