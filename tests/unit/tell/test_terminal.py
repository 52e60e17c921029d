"""What people see when a server is ready."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from entrypoint.tell.board import Phase
from entrypoint.tell.endpoint import Endpoint
from entrypoint.tell.terminal import WEATHER_REQUEST, curl_line, ready_text

ENDPOINT = Endpoint("http://nid1:30000/v1", "tiny", "http://nid1:30900", None)


@pytest.fixture
def stub_curl(tmp_path: Path) -> Path:
    """A ``curl`` that prints its words."""
    stub = tmp_path / "curl"
    stub.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    stub.chmod(0o700)
    return tmp_path


def typed(line: str, directory: Path, **environ: str) -> list[str]:
    """Return what curl is called with by a shell that the line is typed into."""
    path = f"{directory}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], env={"PATH": path, **environ}, capture_output=True, text=True, check=True
    )
    words: list[str] = json.loads(done.stdout)
    return words


@pytest.mark.parametrize("model", ["tiny", "/models/my model", 'it\'s; `id` $HOME "x" ü'])
def test_the_printed_line_is_valid_shell(stub_curl: Path, model: str):
    words = typed(curl_line(replace(ENDPOINT, model=model)), stub_curl)
    assert words[:-1] == [
        *("-s", "http://nid1:30000/v1/chat/completions"),
        *("-H", "Content-Type: application/json", "-d"),
    ]
    assert json.loads(words[-1]) == {"model": model, **WEATHER_REQUEST}


def test_a_key_is_taken_from_the_callers_environment_and_never_shown(stub_curl: Path):
    line = curl_line(replace(ENDPOINT, api_key="s3cret-key"))
    assert "s3cret-key" not in line
    assert "Authorization: Bearer mine" in typed(line, stub_curl, OPENAI_API_KEY="mine")


def test_without_a_key_none_is_sent(stub_curl: Path):
    assert not [word for word in typed(curl_line(ENDPOINT), stub_curl) if "Authorization" in word]


def test_an_address_in_brackets_is_no_pattern_for_the_shell(stub_curl: Path):
    words = typed(curl_line(replace(ENDPOINT, url="http://[::1]:30000/v1")), stub_curl)
    assert words[1] == "http://[::1]:30000/v1/chat/completions"


def test_the_text_says_where_and_how_long_it_took():
    phases = [Phase("loading", 0.0, 10.0), Phase("proving", 10.0, 2.5), Phase("ready", 12.5)]
    lines = ready_text(replace(ENDPOINT, api_key="s3cret-key"), phases).splitlines()
    assert "  Serving tiny at http://nid1:30000/v1" in lines
    assert "  Health  http://nid1:30900/status" in lines
    assert "  loading         10.0 s" in lines
    assert "  total           12.5 s" in lines
    assert not [line for line in lines if "ready" in line]
    assert "s3cret-key" not in "\n".join(lines)
