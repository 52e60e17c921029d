"""Events: told once to people and once to a file, without ever holding up the run."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from entrypoint.tell import events
from entrypoint.tell.events import EventLog

Open = Callable[..., EventLog]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Blocked(io.StringIO):
    """A stream that nobody reads: writing hangs until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def write(self, text: str) -> int:
        self.reached.set()
        self.let_go.wait()
        return super().write(text)


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    stream = Blocked()
    yield stream
    stream.let_go.set()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# The file


def test_every_event_is_one_line_of_json(open_log: Open, tmp_path: Path):
    told = open_log(tmp_path / "events.jsonl")
    told.tell("state", state="loading", before="starting", before_lasted_s=1.5, path=tmp_path)
    told.warn("odd", text='two\nlines "quoted" ü')
    told.error("broken", values=("a", 1))
    told.close()
    first, second, third = lines_of(tmp_path / "events.jsonl")
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "info",
        "event": "state",
        "state": "loading",
        "before": "starting",
        "before_lasted_s": 1.5,
        "path": str(tmp_path),
    }
    assert (second["level"], second["text"]) == ("warning", 'two\nlines "quoted" ü')
    assert (third["level"], third["values"]) == ("error", ["a", 1])


def test_the_file_is_its_owners_alone(open_log: Open, tmp_path: Path):
    open_log(tmp_path / "events.jsonl")
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_already_is_added_to(open_log: Open, tmp_path: Path):
    for name in ("one", "two"):
        log = open_log(tmp_path / "events.jsonl")
        log.tell(name)
        log.close()
    assert [line["event"] for line in lines_of(tmp_path / "events.jsonl")] == ["one", "two"]


def test_secrets_are_masked_for_everybody(open_log: Open, tmp_path: Path, stream: io.StringIO):
    log = open_log(tmp_path / "events.jsonl")
    log.tell("run", command=["--x", "s3cret-key"], nested={"a": {"api_key": "other-secret"}}, text="is s3cret-key")
    log.close()
    for text in ((tmp_path / "events.jsonl").read_text(), stream.getvalue()):
        assert "s3cret-key" not in text
        assert "other-secret" not in text
        assert "***" in text


def test_a_file_that_cannot_be_written_is_told_and_the_run_goes_on(open_log: Open, tmp_path: Path, stream: io.StringIO):
    log = open_log(tmp_path / "missing" / "events.jsonl")
    log.tell("run")
    log.close()
    told = stream.getvalue()
    assert "!! events-unwritten" in told
    assert "No such file or directory" in told
    assert "run" in told.splitlines()[-1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_costs_lines_which_are_counted_and_nothing_else(open_log: Open, stream: io.StringIO):
    log = open_log(Path("/dev/full"))
    log.tell("one")
    log.tell("two")
    log.close()
    assert log.dropped == 2
    assert len(stream.getvalue().splitlines()) == 2


# The stream


def test_people_read_a_clock_a_name_and_details(open_log: Open, stream: io.StringIO):
    told = open_log()
    told.tell("spawned", pid=7, took_s=1.26, path=None, words=("a", "b"))
    told.warn("odd")
    told.error("broken")
    told.close()
    first, second, third = stream.getvalue().splitlines()
    assert first[2] == first[5] == ":"
    assert first[8:] == "  spawned         pid=7  took_s=1.3  words=a,b"
    assert second[8:] == "  ! odd"
    assert third[8:] == "  !! broken"


def test_a_state_a_check_and_the_end_have_lines_of_their_own(open_log: Open, stream: io.StringIO):
    log = open_log()
    log.tell("state", state="ready", before="proving", before_lasted_s=0.7, happening="proved")
    log.tell("state", state="checking", before="planned", before_lasted_s=None, happening="begin")
    log.tell("self-check", passed=True, summary="The self-check passed.")
    log.error("ended", code=70, summary="It died.", remedy="Mend it.", notes=("One was lost.",), report="/r.md")
    log.tell("ended", code=0, summary="Stopped.", remedy="", notes=(), report="/r.md")
    log.tell("serving", url="http://h/v1", block="  Try it:\n  curl")
    log.error("finding", rule="a-rule", severity="error", message="It is bad.", remedy="Mend it.", setting="a.b")
    log.close()
    assert [line[8:] if line[:2].isdigit() else line for line in stream.getvalue().splitlines()] == [
        "  ready           proving took 0.7 s",
        "  checking",
        "  The self-check passed.",
        "  !! ended with exit code 70",
        "  It died.",
        "  What to do: Mend it.",
        "  One was lost.",
        "  Report: /r.md",
        "  ended with exit code 0",
        "  Stopped.",
        "  Report: /r.md",
        "  serving         url=http://h/v1",
        "  Try it:",
        "  curl",
        "  !! error           It is bad. (a-rule)",
        "  What to do: Mend it.",
    ]


@pytest.mark.parametrize(
    ("to", "style", "is_json"),
    [
        (io.StringIO, "auto", True),
        (Terminal, "auto", False),
        (io.StringIO, "console", False),
        (Terminal, "json", True),
    ],
)
def test_the_style_follows_the_terminal_unless_it_is_set(
    open_log: Open, to: type[io.StringIO], style: str, *, is_json: bool
):
    stream = to()
    log = open_log(to=stream, style=style)
    log.tell("run", a=1)
    log.close()
    assert stream.getvalue().startswith("{") == is_json


def test_a_line_that_cannot_be_made_does_not_end_the_others(
    open_log: Open, stream: io.StringIO, capsys: pytest.CaptureFixture[str]
):
    log = open_log()
    log.tell("state", nonsense=1)
    log.tell("run")
    log.close()
    assert stream.getvalue().splitlines()[0].endswith("run")
    assert "KeyError" in capsys.readouterr().err


def test_a_stream_that_was_closed_costs_lines_and_nothing_else(open_log: Open, tmp_path: Path):
    stream = io.StringIO()
    log = open_log(tmp_path / "events.jsonl", to=stream)
    stream.close()
    log.tell("run")
    log.close()
    assert log.dropped == 1
    assert [line["event"] for line in lines_of(tmp_path / "events.jsonl")] == ["run"]


# A stream that hangs


def test_telling_never_waits_and_what_does_not_fit_is_counted(
    open_log: Open, blocked: Blocked, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "QUEUED_EVENTS", 5)
    log = open_log(to=blocked)
    log.tell("first")
    assert blocked.reached.wait(10)
    for _ in range(8):
        log.tell("more")
    assert log.dropped == 3


def test_nothing_is_dropped_while_it_fits(open_log: Open, stream: io.StringIO):
    log = open_log()
    for _ in range(1000):
        log.tell("one")
    log.close()
    assert log.dropped == 0
    assert len(stream.getvalue().splitlines()) == 1000


@pytest.mark.parametrize("waiting", [1, 50])
def test_closing_is_bounded_even_with_a_full_queue(
    open_log: Open, blocked: Blocked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int
):
    monkeypatch.setattr(events, "QUEUED_EVENTS", 5)
    monkeypatch.setattr(events, "FLUSH_S", 0.1)
    log = open_log(tmp_path / "events.jsonl", to=blocked)
    for _ in range(waiting):
        log.tell("more")
    began = time.monotonic()
    log.close()
    assert time.monotonic() - began < 5


def test_closing_twice_is_closing_once(open_log: Open, tmp_path: Path):
    log = open_log(tmp_path / "events.jsonl")
    log.close()
    log.close()


@pytest.mark.parametrize("environ", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_python_ends_although_nobody_reads_stderr(environ: Mapping[str, str]):
    script = """
import sys
from entrypoint.settings.redaction import Masker
from entrypoint.tell import events
events.FLUSH_S = 0.1
log = events.EventLog(None, stream=sys.stderr, style="json", masker=Masker())
for _ in range(events.QUEUED_EVENTS + 5000):
    log.tell("more", text="x" * 100)
log.close()
print(log.dropped > 0)
sys.exit(7)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | environ
    read, write = os.pipe()  # nobody reads it, so that it is full after 64 KiB
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=write,
        check=False,
        timeout=60,
    )
    os.close(read)
    os.close(write)
    assert (done.returncode, done.stdout) == (7, b"True\n")
