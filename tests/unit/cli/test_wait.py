"""``supervise wait``: ready, over, or not in time."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrypoint.cli import main, wait
from entrypoint.tell.files import write_private_json

Serve = Callable[..., Any]
Later = Callable[[float, Callable[[], object]], None]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "LOOK_S", 0.01)
    monkeypatch.delenv("SUPERVISE_TOKEN", raising=False)


def ready(live: Any) -> None:
    live.board.enter("ready", ready=True, reasons=(), now=1.0)


def fill(directory: Path, live: Any, *, api_key: str | None = "s3cret") -> Path:
    """Write into a run directory what a run writes."""
    directory.mkdir(exist_ok=True)
    plan = {"host": "nid1", "settings": {"health": {"host": "127.0.0.1", "port": live.port}}}
    endpoint = {"url": "http://nid1:30000/v1", "model": "tiny", "health_url": live.url, "api_key": api_key}
    write_private_json(directory / "endpoint.json", endpoint)
    write_private_json(directory / "plan.json", plan)
    return directory


def end(directory: Path, **report: Any) -> None:
    complete = {"code": 70, "summary": "The engine ended by itself.", "remedy": "Read its log.", **report}
    write_private_json(directory / "report-0.json", complete)


def test_a_server_that_is_ready_is_named_at_once(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    ready(live)
    assert main(["wait", live.url]) == 0
    assert capsys.readouterr().out == "http://127.0.0.1:1/v1\n"


def test_waiting_ends_when_the_server_is_ready_and_tells_its_states(
    serve: Serve, later: Later, capsys: pytest.CaptureFixture[str]
):
    live = serve()
    live.board.enter("loading", ready=False, reasons=("loading",), now=0.0)
    later(0.2, lambda: ready(live))
    assert main(["wait", live.url, "--timeout", "30"]) == 0
    said = capsys.readouterr()
    assert said.err == "supervise: loading\n"
    assert said.out == "http://127.0.0.1:1/v1\n"


def test_a_run_directory_is_waited_for(serve: Serve, later: Later, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    live = serve()
    ready(live)
    later(0.1, lambda: fill(tmp_path / "7.0.0", live))
    assert main(["wait", str(tmp_path / "7.0.0"), "--timeout", "30"]) == 0
    assert capsys.readouterr().out == "http://nid1:30000/v1\n"


def test_a_run_directory_that_is_there_gets_a_moment_to_be_filled(
    serve: Serve, later: Later, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    live = serve()
    ready(live)
    (tmp_path / "7.0.0").mkdir()
    later(0.1, lambda: fill(tmp_path / "7.0.0", live))
    assert main(["wait", str(tmp_path / "7.0.0"), "--timeout", "30"]) == 0
    assert capsys.readouterr().out == "http://nid1:30000/v1\n"


def test_a_directory_that_stays_empty_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(wait, "FILLED_S", 0.05)
    assert main(["wait", str(tmp_path)]) == 64
    assert "neither a URL nor the directory of a run" in capsys.readouterr().err


def test_a_url_that_is_none_is_not_waited_for(capsys: pytest.CaptureFixture[str]):
    assert main(["wait", "http://nid1:port"]) == 64
    assert "health endpoints" in capsys.readouterr().err


# What is printed


def test_json_is_the_endpoint(serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    live = serve()
    ready(live)
    assert main(["wait", str(fill(tmp_path, live)), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["api_key"] == "s3cret"


def evaluated(lines: str, **environ: str) -> list[str]:
    """Return the two variables as a shell sees them that evaluates the lines."""
    script = f'{lines}\nprintf "%s\\n%s" "$OPENAI_BASE_URL" "$OPENAI_API_KEY"'
    environment = {"PATH": os.environ["PATH"], **environ}
    done = subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")


@pytest.mark.parametrize(
    ("key", "seen"), [("s3cret", "s3cret"), ('it\'s; "$HOME" `id`', 'it\'s; "$HOME" `id`'), (None, "none")]
)
def test_export_prints_lines_that_a_shell_evaluates(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str | None, seen: str
):
    live = serve()
    ready(live)
    assert main(["wait", str(fill(tmp_path, live, api_key=key)), "--export"]) == 0
    assert evaluated(capsys.readouterr().out) == ["http://nid1:30000/v1", seen]


def test_a_key_that_the_caller_has_survives_where_the_runs_is_not_known(
    serve: Serve, capsys: pytest.CaptureFixture[str]
):
    live = serve()
    ready(live)
    assert main(["wait", live.url, "--export"]) == 0
    lines = capsys.readouterr().out
    assert evaluated(lines) == ["http://127.0.0.1:1/v1", "none"]
    assert evaluated(lines, OPENAI_API_KEY="mine") == ["http://127.0.0.1:1/v1", "mine"]


# A run that is over


@pytest.mark.parametrize(("code", "ends_with"), [(71, 71), (76, 76), (0, 70)])
def test_a_run_that_ended_ends_the_wait_with_its_code(
    serve: Serve, later: Later, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, code: int, ends_with: int
):
    directory = fill(tmp_path, serve())
    later(0.1, lambda: end(directory, code=code))
    assert main(["wait", str(directory), "--timeout", "30"]) == ends_with
    assert "The run is over: The engine ended by itself.\nRead its log." in capsys.readouterr().err


def test_an_ended_run_is_over_even_if_another_answers_on_its_port(serve: Serve, tmp_path: Path):
    live = serve()
    ready(live)
    directory = fill(tmp_path, live)
    end(directory)
    assert main(["wait", str(directory)]) == 70


@pytest.mark.parametrize("report", ["{", "[]", "{}", '{"code": 1, "summary": "s", "remedy": ""}'])
def test_a_report_that_cannot_be_read_is_an_end_all_the_same(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str], report: str
):
    directory = fill(tmp_path, serve())
    (directory / "report-0.json").write_text(report)
    assert main(["wait", str(directory)]) == 70
    assert str(directory / "report-0.md") in capsys.readouterr().err


def test_a_report_without_a_remedy_names_itself(serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    directory = fill(tmp_path, serve())
    end(directory, remedy="")
    assert main(["wait", str(directory)]) == 70
    assert f"See {directory / 'report-0.md'}." in capsys.readouterr().err


def test_a_run_that_answers_no_more_is_gone(
    serve: Serve, later: Later, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(wait, "GONE_S", 0.1)
    live = serve()
    later(0.2, live.stop)
    assert main(["wait", live.url, "--timeout", "30"]) == 75
    assert "has answered nothing for" in capsys.readouterr().err


# Time


@pytest.mark.parametrize("where", ["http://127.0.0.1:1", "missing"])
def test_a_wait_may_be_limited(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    named = where if "://" in where else str(tmp_path / where)
    assert main(["wait", named, "--timeout", "0.1"]) == 75
    assert "Waited long enough" in capsys.readouterr().err


def test_a_server_that_is_not_ready_in_time_is_named_with_its_state(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve()
    live.board.enter("held", ready=False, reasons=("held",), now=0.0)
    assert main(["wait", live.url, "--timeout", "0.1"]) == 75
    assert "is not ready: held" in capsys.readouterr().err


def test_a_ready_server_is_named_even_without_any_time(serve: Serve):
    live = serve()
    ready(live)
    assert main(["wait", live.url, "--timeout", "0"]) == 0


# What is missing


def test_a_ready_run_without_an_endpoint_file_is_said_so(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    live = serve()
    ready(live)
    directory = fill(tmp_path, live)
    (directory / "endpoint.json").unlink()
    assert main(["wait", str(directory)]) == 75
    assert "holds no endpoint.json" in capsys.readouterr().err


def test_the_url_of_a_run_beyond_loopback_wants_its_token(serve: Serve, capsys: pytest.CaptureFixture[str]):
    live = serve(token="s3cret")
    ready(live)
    assert main(["wait", live.url]) == 77
    assert "wants the run's token" in capsys.readouterr().err
