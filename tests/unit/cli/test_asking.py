"""``status``, ``drain`` and ``verify`` against real health endpoints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrypoint.cli import main, verify
from entrypoint.tell.board import Board

Serve = Callable[..., Any]
PASSED = {"passed": True, "unix_s": 5.0, "failures": [], "exchanges": []}
FAILED = {**PASSED, "passed": False, "unix_s": 9.0}


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUPERVISE_TOKEN", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(verify, "LOOK_S", 0.01)


# Status


def full(board: Board) -> None:
    board.enter("loading", ready=False, reasons=("loading",), now=1.0)
    board.enter("degraded", ready=True, reasons=("the canary failed",), now=3.5)
    board.progress = "2 of 4 shards loaded"
    board.engine = {"pool_tokens": 4096}
    board.load = {"running": 2}
    board.findings = ({"severity": "warning", "rule": "access-open", "message": "Open to all."},)
    board.verdict = {"code": 70, "summary": "It is over.", "remedy": ""}


def test_status_shows_the_whole_picture(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    full(live.board)
    assert main(["status", live.url]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tiny at http://127.0.0.1:1/v1: degraded, ready (the canary failed)",
        "progress  2 of 4 shards loaded",
        "  loading           2.5 s",
        "  degraded            now",
        "engine    pool_tokens = 4096",
        "load      running = 2",
        "warning   access-open: Open to all.",
        "ended     It is over.",
    ]


MEMORY = {
    "headroom_bytes": 20 << 30,
    "limit_bytes": None,
    "total_bytes": 512 << 30,
    "floor_bytes": 8 << 30,
    "seconds_to_floor": 119.6,
    "engine_bytes": 400 << 30,
}


def test_status_shows_how_much_memory_is_left_and_for_how_long(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    live.board.memory = MEMORY
    assert main(["status", live.url]) == 0
    said = capsys.readouterr().out
    assert "memory    20.0 GiB left of 512.0 GiB, floor 8.0 GiB, at the floor in about 120 s\n" in said
    assert "memory    400.0 GiB held by the engine's processes\n" in said


def test_status_promises_nothing_about_memory_that_does_not_fall(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    live.board.memory = {**MEMORY, "seconds_to_floor": None, "limit_bytes": 64 << 30}
    assert main(["status", live.url]) == 0
    assert "memory    20.0 GiB left of 64.0 GiB, floor 8.0 GiB\n" in capsys.readouterr().out


def test_status_of_a_run_that_has_just_begun(serve: Serve, capsys: pytest.CaptureFixture[str]):
    assert main(["status", serve().url]) == 0
    assert capsys.readouterr().out == "tiny at http://127.0.0.1:1/v1: planned, not ready (planned)\n"


def test_status_as_json_is_what_the_run_says(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    full(live.board)
    assert main(["status", live.url, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(live.board.status()))


def test_status_wants_the_token_that_a_run_directory_holds(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    live = serve(token="s3cret")
    assert main(["status", live.url]) == 77
    plan = {"host": "h", "settings": {"health": {"host": "127.0.0.1", "port": live.port}}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "token").write_text("s3cret\n")
    assert main(["status", str(tmp_path)]) == 0
    assert "tiny at" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["status", "drain"])
def test_another_server_is_not_taken_for_a_run(serve: Serve, capsys: pytest.CaptureFixture[str], command: str):
    live = serve()
    assert main([command, f"{live.url}/v1"]) == 64
    assert "answers 404" in capsys.readouterr().err
    assert live.drains == []


@pytest.mark.parametrize("command", ["status", "drain"])
def test_a_run_that_is_gone_cannot_be_asked(capsys: pytest.CaptureFixture[str], command: str):
    assert main([command, "http://127.0.0.1:1"]) == 69
    assert "cannot be reached" in capsys.readouterr().err


# Drain


def test_drain_asks_for_the_end(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    assert main(["drain", live.url]) == 0
    assert live.drains == ["asked"]
    assert capsys.readouterr().out == f"{live.url} drains and then stops\n"


def test_drain_as_json(serve: Serve, capsys: pytest.CaptureFixture[str]):
    assert main(["drain", serve().url, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"draining": True}


def test_drain_without_the_token_does_nothing(serve: Serve):
    live = serve(token="s3cret")
    assert main(["drain", live.url]) == 77
    assert live.drains == []


# Verify, of a run


def test_a_held_run_proves_itself_again_and_the_new_check_counts(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    live.board.self_check = FAILED

    def prove() -> bool:
        live.board.self_check = {**PASSED, "unix_s": 1.0}  # another clock, which is behind ours
        return True

    live.proves = prove
    assert main(["verify", live.url]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True


def test_a_held_run_that_fails_again_ends_with_76(serve: Serve, later: Callable[..., None]):
    live = serve()
    live.proves = lambda: later(0.1, lambda: setattr(live.board, "self_check", FAILED)) is None
    assert main(["verify", live.url, "--timeout", "30"]) == 76


@pytest.mark.parametrize(("check", "code"), [(PASSED, 0), (FAILED, 76)])
def test_a_run_with_nothing_to_prove_shows_its_last_check(
    serve: Serve, capsys: pytest.CaptureFixture[str], check: dict[str, Any], code: int
):
    live = serve()
    live.board.self_check = check
    assert main(["verify", live.url]) == code
    assert json.loads(capsys.readouterr().out) == check


def test_a_run_that_was_never_proven_is_said_so(serve: Serve, capsys: pytest.CaptureFixture[str]):
    assert main(["verify", serve().url]) == 76
    assert "has not proven anything yet; it is planned" in capsys.readouterr().err


def test_a_check_that_does_not_come_in_time_is_said_so(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    live.proves = lambda: True
    assert main(["verify", live.url, "--timeout", "0.05"]) == 76
    assert "did not finish its self-check within 0.05 s" in capsys.readouterr().err


def test_verify_of_a_run_beyond_loopback_wants_its_token(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    live = serve(token="s3cret")
    live.board.self_check = PASSED
    assert main(["verify", live.url]) == 77
    monkeypatch.setenv("SUPERVISE_TOKEN", "s3cret")
    assert main(["verify", live.url]) == 0


# Verify, of any server


def test_a_server_that_is_gone_fails_the_check(capsys: pytest.CaptureFixture[str]):
    assert main(["verify", "http://127.0.0.1:1", "--format", "json"]) == 76
    (failure,) = json.loads(capsys.readouterr().out)["failures"]
    assert "connection" in failure["kind"]


@pytest.mark.parametrize("url", ["http://nid1:port", "ftp://nid1"])
def test_what_is_no_url_is_a_usage_error(url: str):
    assert main(["verify", url]) == 64


def test_a_key_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["verify", "http://127.0.0.1:1", "--api-key-file", str(tmp_path / "missing")]) == 64
    assert "cannot be read" in capsys.readouterr().err


def test_the_token_of_a_run_is_not_sent_to_a_stranger(stranger: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SUPERVISE_TOKEN", "s3cret-token")
    (tmp_path / "key").write_text("its-key\n")
    assert main(["verify", stranger.url, "--api-key-file", str(tmp_path / "key")]) == 76
    assert "Bearer its-key" in stranger.authorizations
    assert not [sent for sent in stranger.authorizations if "s3cret-token" in sent]
