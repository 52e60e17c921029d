"""The health endpoints: there from the start, honest, and open to those who may."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Supervised, wait_for
from stage import Stage

pytestmark = pytest.mark.process
Start = Callable[..., Supervised]


def gated_python(directory: Path) -> tuple[Path, Path]:
    """Make an interpreter for the engine that starts once a file is there; return it and the file."""
    script, gate = directory / "python", directory / "gate"
    script.write_text(f'#!/bin/sh\nuntil [ -e {gate} ]; do sleep 0.02; done\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script, gate


def assert_alive_and_not_ready(run: Supervised, state: str) -> None:
    assert run.get("/livez").status_code == 200
    for path in ("/readyz", "/health"):
        answer = run.get(path)
        assert answer.status_code == 503
        assert answer.json() == {"ready": False, "state": state, "reasons": [state]}
    assert 'supervise_state{state="' + state + '"} 1.0' in run.get("/metrics").text
    assert "supervise_ready 0.0" in run.get("/metrics").text
    assert not (run.run_directory / "endpoint.json").exists()


def test_it_answers_from_checking_on_and_is_ready_when_proven(start_fake: Start, tmp_path: Path):
    python, gate = gated_python(tmp_path)
    with start_fake("--engine.python", str(python), hangs_at="load") as run:
        run.wait_state("checking")
        assert_alive_and_not_ready(run, "checking")
        gate.touch()
        run.wait_state("loading")
        assert_alive_and_not_ready(run, "loading")


@pytest.fixture(scope="module")
def open_run(stage: Stage) -> Iterator[Supervised]:
    """A ready run whose health endpoints are at an address that does not count as loopback."""
    made = stage.make("--health.host", "127.0.0.2")
    made.health_host = "127.0.0.2"
    with made:
        made.wait_state("ready")
        yield made


def bearer(run: Supervised) -> dict[str, str]:
    return {"Authorization": f"Bearer {(run.run_directory / 'token').read_text().strip()}"}


def test_ready_is_told_everywhere_at_once(open_run: Supervised):
    assert open_run.get("/readyz").json() == {"ready": True, "state": "ready", "reasons": []}
    endpoint = json.loads((open_run.run_directory / "endpoint.json").read_text())
    assert endpoint["url"] == f"http://127.0.0.1:{open_run.engine_port}/v1"
    assert endpoint["model"] == "tiny"
    assert "supervise_ready 1.0" in open_run.get("/metrics").text
    assert f"Serving tiny at {endpoint['url']}" in open_run.stderr()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health", "/metrics"])
def test_what_shows_nothing_private_is_open(open_run: Supervised, path: str):
    assert open_run.get(path).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer"}, {"Authorization": "Bearer guessed"}])
def test_without_the_token_nothing_is_shown_or_changed(open_run: Supervised, headers: dict[str, str]):
    assert open_run.get("/status", **headers).status_code == 401
    assert open_run.post("/drain", **headers).status_code == 401
    assert open_run.post("/prove", **headers).status_code == 401
    assert open_run.state() == "ready"


def test_the_token_is_in_the_run_directory_for_its_owner(open_run: Supervised):
    token = open_run.run_directory / "token"
    assert token.stat().st_mode & 0o777 == 0o600
    status = open_run.get("/status", **bearer(open_run))
    assert status.json()["state"] == "ready"
    assert token.read_text().strip() not in status.text
    assert open_run.post("/prove", **bearer(open_run)).status_code == 409


def test_with_the_token_it_drains(open_run: Supervised):
    assert open_run.post("/drain", **bearer(open_run)).status_code == 202
    assert open_run.wait() == 0
    assert not (open_run.run_directory / "endpoint.json").exists()


def test_on_loopback_no_token_is_made(start_fake: Start):
    with start_fake() as run:
        run.wait_state("starting")
        assert run.get("/status").status_code == 200
        assert not (run.run_directory / "token").exists()
        run.signal(signal.SIGTERM)
        assert run.wait() == 0


def test_readiness_ends_with_the_engine_and_comes_back_with_it(start_fake: Start):
    with start_fake() as run:
        run.wait_state("ready")
        run.engine.turn(hangs_at="load")
        run.main.kill()
        run.wait_state("loading")
        assert_alive_and_not_ready(run, "loading")
        wait_for(lambda: run.status()["generation"] == 1, 10, "the second start")
