"""Signals: every one that asks for the end ends the run with 0 from every state, and a second one forces it."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import SUPERVISE, Supervised, wait_for
from stage import Stage, playing

pytestmark = pytest.mark.process
Played = Mapping[str, Future[Supervised]]
APART_S = 0.6
"""A little more than the time within which two signals are one request."""


@dataclass(frozen=True)
class Stop:
    """A stop.

    Attributes:
        state: The state in which it is asked for.
        signals: What is sent, in order.
        arguments: More of the command line.
        faults: What keeps the run in that state.
        reach: Brings the run there, where waiting is not enough.
    """

    state: str
    signals: tuple[signal.Signals, ...]
    arguments: tuple[str, ...] = ()
    faults: Mapping[str, Any] = field(default_factory=dict)
    reach: Callable[[Supervised], None] = lambda _: None


def kill_twice(run: Supervised) -> None:
    """Bring a run to the pause before its second restart."""
    for generation in range(2):
        run.wait_generation(generation)
        run.main.kill()


def degrade(run: Supervised) -> None:
    run.wait_state("ready")
    run.engine.turn(inference_status=500)


HOLD = ("--prove.on_failure", "hold")
STOPS = {
    "checking": Stop("checking", (signal.SIGTERM,)),
    "starting": Stop("starting", (signal.SIGINT,), faults={"hangs_at": "start"}),
    "loading": Stop("loading", (signal.SIGTERM,), faults={"hangs_at": "load"}),
    "capturing": Stop("capturing", (signal.SIGHUP,), faults={"hangs_at": "capture"}),
    "engine-up": Stop("engine-up", (signal.SIGUSR1,), faults={"hangs_at": "warmup"}),
    "proving": Stop("proving", (signal.SIGINT,), faults={"inference_s": 60}),
    "ready": Stop("ready", (signal.SIGCONT, signal.SIGTERM)),
    "warned": Stop("ready", (signal.SIGUSR1,)),
    "degraded": Stop("degraded", (signal.SIGTERM,), ("--prove.every_s", "0.1"), reach=degrade),
    "held": Stop("held", (signal.SIGTERM,), HOLD, {"thinks": False}),
    "restarting": Stop("restarting", (signal.SIGTERM,), ("--restart.backoff_s", "60"), reach=kill_twice),
}


def slow_python(directory: Path) -> Path:
    """Make an interpreter for the engine that takes very long to start."""
    script = directory / "slow-python"
    script.write_text(f'#!/bin/sh\nsleep 600\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


def stop(stage: Stage, name: str) -> Supervised:
    case = STOPS[name]
    arguments, environment = case.arguments, {}
    if case.state == "checking":
        arguments = ("--engine.python", str(slow_python(stage.directory)))
        environment = {"SUPERVISE_CACHES__SHARED": str(stage.directory / "empty")}
    with stage.make(*arguments, environment=environment, **case.faults) as run:
        case.reach(run)
        run.wait_state(case.state)
        for number in case.signals:
            run.signal(number)
        assert run.wait() == 0
        run.assert_nothing_left()
    return run


def force(stage: Stage) -> Supervised:
    with stage.make("--drain.timeout_s", "600", drains=False, children_stay=True) as run:
        run.wait_state("ready")
        run.signal(signal.SIGTERM)
        asked_at = time.monotonic()
        run.wait_state("stopping")
        wait_for(lambda: time.monotonic() - asked_at > APART_S, 10, "another request")
        run.signal(signal.SIGINT)
        assert run.wait() == 0
        run.assert_nothing_left()
    return run


def ask_twice_at_once(stage: Stage) -> Supervised:
    with stage.make() as run:
        run.wait_state("ready")
        run.engine.turn(inference_s=1)
        with run.asking() as answer:
            run.signal(signal.SIGINT)
            run.signal(signal.SIGTERM)
            assert answer.result(30)["choices"][0]["finish_reason"] == "stop"
        assert run.wait() == 0
    return run


def hang_up(stage: Stage) -> Supervised:
    run = stage.make()
    run.command = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh", *SUPERVISE)
    with run:
        run.wait_state("ready")
        run.signal(signal.SIGHUP)
        run.signal(signal.SIGTERM)
        assert run.wait() == 0
    return run


@pytest.fixture(scope="module")
def played(stage: Stage) -> Iterator[Played]:
    stories = {name: partial(stop, stage, name) for name in STOPS}
    others = {story.__name__: partial(story, stage) for story in (force, ask_twice_at_once, hang_up)}
    with playing(others | stories) as runs:
        yield runs


@pytest.mark.parametrize("name", STOPS)
def test_a_signal_stops_it_from_every_state(played: Played, name: str):
    run, case = played[name].result(), STOPS[name]
    report = run.report()
    assert report["summary"] == f"Stopped as asked by {case.signals[-1].name}, while {case.state}."
    assert not report["notes"]
    assert run.states()[-1] == "stopped"
    assert ("draining" in run.states()) == (case.state in {"ready", "degraded"})


def test_a_stop_while_checking_leaves_out_everything_else(played: Played):
    assert played["checking"].result().states() == ["checking", "stopped"]


def test_a_second_signal_forces_the_end(played: Played):
    report = played["force"].result().report()
    (note,) = report["notes"]
    assert "a second signal, SIGINT" in note
    assert report["summary"] == "Stopped as asked by SIGTERM, while ready."


def test_two_signals_at_once_are_one_request(played: Played):
    assert not played["ask_twice_at_once"].result().report()["notes"]


def test_a_hangup_that_was_ignored_from_the_start_is_ignored(played: Played):
    assert played["hang_up"].result().report()["summary"] == "Stopped as asked by SIGTERM, while ready."
