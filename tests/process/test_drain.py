"""Draining: no new clients, the old ones are served, and the end comes in time whatever they do."""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import httpx
import pytest
from fake_answers import ANSWER, THOUGHT
from harness import Supervised, wait_for
from stage import Stage, playing

pytestmark = pytest.mark.process
Played = Mapping[str, Future[Supervised]]
TIMEOUT_S = 2.0
SHORT = ("--drain.timeout_s", str(TIMEOUT_S))


def let_finish(stage: Stage) -> Supervised:
    """Drain on request while somebody waits for an answer; look around meanwhile."""
    with stage.make() as run:
        run.wait_state("ready")
        assert (run.run_directory / "endpoint.json").exists()
        run.engine.turn(inference_s=1.5)
        with run.asking() as answer:
            assert run.post("/drain").status_code == 202
            run.wait_state("draining")
            assert not answer.done()
            readyz = run.get("/readyz")
            assert readyz.status_code == 503
            assert readyz.json() == {"ready": False, "state": "draining", "reasons": ["draining"]}
            assert not (run.run_directory / "endpoint.json").exists()
            wait_for(lambda: run.status()["progress"] == "requests in flight: 1", 5, "the request is told")
            assert_whole(answer)
        assert run.wait() == 0
        run.assert_nothing_left()
    return run


def assert_whole(answer: Future[dict[str, Any]]) -> None:
    choice = answer.result(30)["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == "".join(ANSWER)
    assert choice["message"]["reasoning_content"] == "".join(THOUGHT)


def run_out_of_time(stage: Stage) -> Supervised:
    with stage.make(*SHORT) as run:
        run.wait_state("ready")
        run.engine.turn(inference_s=60)
        with run.asking() as answer:
            run.signal(signal.SIGTERM)
            asked_at = time.monotonic()
            assert run.wait() == 0
            assert time.monotonic() - asked_at < TIMEOUT_S + 2
            with pytest.raises(httpx.TransportError):
                answer.result(10)
        run.assert_nothing_left()
    return run


def never_end(stage: Stage, **faults: Any) -> Supervised:
    """Stop an engine that is idle and does not come to its end, with helpers that are deaf."""
    with stage.make(*SHORT, children_stay=True, **faults) as run:
        run.wait_state("ready")
        run.signal(signal.SIGTERM)
        asked_at = time.monotonic()
        assert run.wait() == 0
        assert time.monotonic() - asked_at < TIMEOUT_S + 2
        run.assert_nothing_left()
    return run


def take_time_to_release(stage: Stage) -> Supervised:
    """Stop an engine that has begun its release and takes longer than an idle one gets to begin."""
    with stage.make("--drain.release_start_s", "0.3", release_s=1.2) as run:
        run.wait_state("ready")
        run.signal(signal.SIGTERM)
        assert run.wait() == 0
    return run


def terminate_everybody(stage: Stage) -> Supervised:
    """Send SIGTERM to every process of the tree, as Slurm does under some trackers."""
    with stage.make(orphan=True) as run:
        run.wait_state("ready")
        run.engine.turn(inference_s=1)
        with run.asking() as answer:
            for pid in run.tree():
                os.kill(pid, signal.SIGTERM)
            assert_whole(answer)
        assert run.wait() == 0
        run.assert_nothing_left()
    return run


@pytest.fixture(scope="module")
def played(stage: Stage) -> Iterator[Played]:
    stories = (run_out_of_time, let_finish, take_time_to_release, terminate_everybody)
    endless = {"never begins": {"drain_poll_s": 60}, "never drains": {"drains": False}}
    with playing(
        {story.__name__: partial(story, stage) for story in stories}
        | {name: partial(never_end, stage, **faults) for name, faults in endless.items()}
    ) as runs:
        yield runs


def test_a_request_in_flight_is_answered_whole(played: Played):
    run = played["let_finish"].result()
    assert not run.report()["notes"]
    assert run.report()["summary"] == "Stopped as asked by a drain request, while ready."


def test_a_request_that_takes_too_long_is_given_up_in_time_and_told(played: Played):
    run = played["run_out_of_time"].result()
    (note,) = run.report()["notes"]
    assert note == "1 request in flight could not be finished within drain.timeout_s."


@pytest.mark.parametrize(("name", "why"), [("never begins", "not-begun"), ("never drains", "time-over")])
def test_an_engine_that_does_not_come_to_its_end_is_killed_in_time(played: Played, name: str, why: str):
    events = played[name].result().events()
    assert [event["why"] for event in events if event["event"] == "engine-killed"] == [why]


def test_an_engine_that_has_begun_to_release_is_left_to_it(played: Played):
    events = played["take_time_to_release"].result().events()
    assert not [event for event in events if event["event"] == "engine-killed"]
    (exited,) = [event for event in events if event["event"] == "engine-exited"]
    assert exited["status"] == "exit code 0"


def test_a_signal_to_every_process_of_the_tree_costs_no_request(played: Played):
    assert not played["terminate_everybody"].result().report()["notes"]
