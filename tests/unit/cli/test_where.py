"""WHERE: how a run is named, and what is said of one that cannot be asked."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrypoint.cli.where import ask, find, health_host, status_of
from entrypoint.outcome import ExitCode, SuperviseError


def plan(host: str = "127.0.0.1", port: int = 30900) -> dict[str, Any]:
    return {"host": "nid1", "settings": {"health": {"host": host, "port": port}}}


@pytest.fixture
def run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SUPERVISE_TOKEN", raising=False)
    directory = tmp_path / "7.0.0"
    directory.mkdir()
    (directory / "plan.json").write_text(json.dumps(plan()))
    return directory


def refused(where: str, token_file: Path | None = None) -> SuperviseError:
    with pytest.raises(SuperviseError) as caught:
        find(where, token_file)
    return caught.value


# Names


def test_a_url_names_a_run():
    run = find("http://nid1:30900/", None)
    assert (run.url, run.directory) == ("http://nid1:30900", None)


@pytest.mark.parametrize("url", ["http://", "http://nid1:port", "ftp://nid1", "://", "http://[::1"])
def test_a_url_that_is_none_is_a_usage_error(url: str):
    error = refused(url)
    assert error.code is ExitCode.USAGE
    assert "http://HOST:PORT" in error.remedy


def test_a_directory_names_the_run_that_writes_there(run_directory: Path):
    run = find(str(run_directory), None)
    assert (run.url, run.token, run.directory) == ("http://127.0.0.1:30900", None, run_directory)


@pytest.mark.parametrize(
    ("host", "reached"),
    [("0.0.0.0", "nid1"), ("::", "nid1"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("nid7", "nid7")],
)
def test_health_endpoints_are_where_the_plan_says(host: str, reached: str):
    assert health_host(plan(host)) == reached


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"settings": {}}', '{"settings": {"health": 1}}', b"\xff"])
def test_a_directory_without_a_plan_is_no_run(run_directory: Path, content: str | bytes | None):
    path = run_directory / "plan.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    error = refused(str(run_directory))
    assert error.code is ExitCode.USAGE
    assert "neither a URL nor the directory of a run" in error.message


# Tokens


def test_the_token_of_a_run_directory_is_found(run_directory: Path):
    (run_directory / "token").write_text("of-directory\n")
    assert find(str(run_directory), None).token == "of-directory"


def test_the_environment_has_a_token_as_well(run_directory: Path, monkeypatch: pytest.MonkeyPatch):
    (run_directory / "token").write_text("of-directory")
    monkeypatch.setenv("SUPERVISE_TOKEN", "of-environment")
    assert find("http://nid1:1", None).token == "of-environment"
    assert find(str(run_directory), None).token == "of-environment"


def test_a_token_file_beats_all(run_directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SUPERVISE_TOKEN", "of-environment")
    (tmp_path / "token").write_text(" of-file \n")
    assert find(str(run_directory), tmp_path / "token").token == "of-file"


def test_a_token_file_that_cannot_be_read_is_not_permitted(run_directory: Path, tmp_path: Path):
    error = refused(str(run_directory), tmp_path / "missing")
    assert error.code is ExitCode.NOT_PERMITTED
    assert "No such file" in error.message
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "holds no text" in refused(str(run_directory), tmp_path / "binary").message


# Asking


def test_a_run_is_asked_with_its_token(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    live = serve(token="s3cret")
    monkeypatch.setenv("SUPERVISE_TOKEN", "s3cret")
    assert status_of(find(live.url, None))["model"] == "tiny"


@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_the_right_token_the_ways_to_give_it_are_named(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, token: str | None
):
    monkeypatch.delenv("SUPERVISE_TOKEN", raising=False)
    if token:
        monkeypatch.setenv("SUPERVISE_TOKEN", token)
    live = serve(token="s3cret")
    with pytest.raises(SuperviseError) as caught:
        ask(find(live.url, None), "GET", "/status")
    assert caught.value.code is ExitCode.NOT_PERMITTED
    assert "wants the run's token" in caught.value.message
    assert "--token-file" in caught.value.remedy


def test_a_run_that_nobody_answers_for_is_said_so():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SuperviseError) as caught:
        ask(find(f"http://127.0.0.1:{port}", None), "GET", "/status")
    assert caught.value.code is ExitCode.NODE_UNFIT
    assert "cannot be reached" in caught.value.message


def test_somebody_elses_answer_is_not_taken_for_a_run(serve: Callable[..., Any]):
    live = serve()
    with pytest.raises(SuperviseError) as caught:
        status_of(find(f"{live.url}/v1", None))
    assert caught.value.code is ExitCode.USAGE
    assert "health.port" in caught.value.remedy
