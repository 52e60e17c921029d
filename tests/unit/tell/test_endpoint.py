"""The endpoint file: there exactly while clients may come."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from entrypoint.tell.endpoint import Endpoint, EndpointFile
from entrypoint.tell.events import EventLog

ENDPOINT = Endpoint("http://nid1:30000/v1", "tiny", "http://nid1:30900", "s3cret-key")


@pytest.fixture
def log(open_log: Callable[..., EventLog]) -> EventLog:
    return open_log()


@pytest.fixture
def file(tmp_path: Path, log: EventLog) -> EndpointFile:
    return EndpointFile(tmp_path / "endpoint.json", ENDPOINT, log, lambda: "  Try it")


def test_announcing_writes_the_file_for_its_owner_with_the_key(file: EndpointFile):
    file.announce()
    assert json.loads(file.path.read_text()) == {
        "url": "http://nid1:30000/v1",
        "model": "tiny",
        "health_url": "http://nid1:30900",
        "api_key": "s3cret-key",
    }
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_announcing_tells_the_url_and_never_the_key(file: EndpointFile, log: EventLog, stream: io.StringIO):
    file.announce()
    log.close()
    told = stream.getvalue()
    assert "serving         url=http://nid1:30000/v1  model=tiny\n  Try it" in told
    assert "s3cret-key" not in told


def test_withdrawing_removes_the_file(file: EndpointFile):
    file.announce()
    file.withdraw()
    assert not file.path.exists()


def test_withdrawing_what_was_never_announced_is_no_failure(file: EndpointFile, log: EventLog, stream: io.StringIO):
    file.withdraw()
    log.close()
    assert stream.getvalue() == ""


def test_announcing_again_after_a_withdrawal_writes_the_file_again(file: EndpointFile):
    file.announce()
    file.withdraw()
    file.announce()
    assert file.path.exists()


def test_a_disk_that_fails_is_told_and_the_server_serves_on(tmp_path: Path, log: EventLog, stream: io.StringIO):
    file = EndpointFile(tmp_path / "gone" / "endpoint.json", ENDPOINT, log, lambda: "")
    file.announce()
    log.close()
    failed, serving = stream.getvalue().splitlines()
    assert "!! endpoint-unwritten" in failed
    assert "No such file" in failed
    assert "serving" in serving


def test_a_file_that_cannot_be_removed_is_told(
    file: EndpointFile, log: EventLog, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Path, "unlink", Mock(side_effect=OSError("stale handle")))
    file.withdraw()
    log.close()
    assert "!! endpoint-left" in stream.getvalue()
    assert "stale handle" in stream.getvalue()
