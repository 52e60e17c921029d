"""The self-check: nothing is ready that does not call tools and think where clients look."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from harness import Supervised, wait_for
from stage import Stage, playing

pytestmark = pytest.mark.process
Played = Mapping[str, Future[Supervised]]
WITHOUT_PARSER = ("--engine.tool_call_parser", "", "--rules.ignore", '["parsers-both"]')
LIES: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "call-as-text": (WITHOUT_PARSER, {}),
    "no-thought": ((), {"thinks": False}),
    "rejected": ((), {"inference_status": 400}),
    "server-error": ((), {"inference_status": 500}),
}


def lie(stage: Stage, kind: str) -> Supervised:
    arguments, faults = LIES[kind]
    with stage.make(*arguments, **faults) as run:
        assert run.wait() == 76
        run.assert_nothing_left()
    return run


def take_too_long(stage: Stage) -> Supervised:
    with stage.make("--prove.timeout_s", "0.5", inference_s=60) as run:
        assert run.wait() == 76
        run.assert_nothing_left()
    return run


def be_held(stage: Stage) -> Supervised:
    """Hold a server that fails, have it fail once more, and prove it when it has become good."""
    with stage.make("--prove.on_failure", "hold", calls_as_text=True) as run:
        run.wait_state("held")
        assert run.get("/readyz").status_code == 503
        assert not (run.run_directory / "endpoint.json").exists()
        first = run.status()["self_check"]
        assert_failed(first)
        assert run.post("/prove").status_code == 202
        wait_for(lambda: run.status()["self_check"] != first, 30, "another self-check")
        run.wait_state("held")
        run.engine.turn()
        assert run.post("/prove").status_code == 202
        run.wait_state("ready")
        assert run.status()["self_check"]["passed"]
        assert (run.run_directory / "endpoint.json").exists()
        assert run.post("/prove").status_code == 409
    return run


def assert_failed(check: Mapping[str, Any]) -> None:
    """The check failed and its transcript shows what was asked and what came instead."""
    assert not check["passed"]
    assert "call-as-text" in {failure["kind"] for failure in check["failures"]}
    assert check["exchanges"][0]["request"]["tools"]
    assert "<tool_call>" in check["exchanges"][0]["answer"]["content"]


def degrade_and_recover(stage: Stage) -> Supervised:
    with stage.make("--prove.every_s", "0.2") as run:
        run.wait_state("ready")
        run.engine.turn(calls_as_text=True)
        run.wait_state("degraded")
        readyz = run.get("/readyz")
        assert readyz.status_code == 200
        assert "the canary failed" in readyz.json()["reasons"][0]
        assert (run.run_directory / "endpoint.json").exists()
        run.engine.turn()
        run.wait_state("ready")
        assert run.get("/readyz").json()["reasons"] == []
    return run


def serve_unproven(stage: Stage) -> Supervised:
    with stage.make("--prove.enabled", "false", thinks=False) as run:
        run.wait_state("ready")
        assert run.status()["self_check"] is None
    return run


def die_while_asked(stage: Stage) -> Supervised:
    """End an engine in the middle of its self-check."""
    with stage.make(inference_s=60, last_words="RuntimeError: memory access fault") as run:
        run.wait_state("proving")
        wait_for(lambda: run.in_flight() == 1, 10, "a request of the self-check")
        run.main.kill()
        assert run.wait() == 70
        run.assert_nothing_left()
    return run


@pytest.fixture(scope="module")
def played(stage: Stage) -> Iterator[Played]:
    stories = (be_held, degrade_and_recover, take_too_long, serve_unproven, die_while_asked)
    lies = {kind: partial(lie, stage, kind) for kind in LIES}
    with playing({story.__name__: partial(story, stage) for story in stories} | lies) as runs:
        yield runs


@pytest.mark.parametrize("kind", LIES)
def test_a_server_that_fails_the_check_is_never_ready(played: Played, kind: str):
    run = played[kind].result()
    report = run.report()
    assert report["phase"] == "proving"
    assert kind in "\n".join(report["evidence"])
    assert "ready" not in run.states()
    assert not (run.run_directory / "endpoint.json").exists()


def test_a_call_in_prose_names_the_parser(played: Played):
    report = played["call-as-text"].result().report()
    assert "--tool-call-parser qwen" in report["summary"] + report["remedy"]


def test_a_check_that_takes_too_long_has_failed(played: Played):
    assert "timeout" in played["take_too_long"].result().report()["evidence"][0]


def test_a_held_server_waits_for_another_proof(played: Played):
    states = played["be_held"].result().states()
    assert states[states.index("proving") :][:6] == ["proving", "held", "proving", "held", "proving", "ready"]


def test_a_canary_takes_a_server_to_degraded_and_back(played: Played):
    states = played["degrade_and_recover"].result().states()
    assert states[states.index("ready") :][:3] == ["ready", "degraded", "ready"]


def test_without_the_check_a_server_is_ready_and_called_unproven(played: Played):
    events = [event["event"] for event in played["serve_unproven"].result().events()]
    assert "unproven" in events


def test_an_engine_that_dies_in_the_check_has_died_and_did_not_fail_it(played: Played):
    report = played["die_while_asked"].result().report()
    assert "signal SIGKILL" in report["summary"]
    assert report["phase"] == "proving"
