"""The fake engine against what was recorded from the real one: it is only as good as it is alike."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_control import MODULE, SITE, FakeEngine
from fake_switches import Switches
from harness import wait_for

DATA = Path(__file__).parents[1] / "data" / "engine"
RECORDED_LOG = DATA / "start-0.5.23-cpu.log"
RECORDED_ANSWERS: Mapping[str, Mapping[str, Any]] = json.loads((DATA / "answers.json").read_text())
RECORDED_FLAGS = json.loads((DATA / "flags-0.5.23.json").read_text())["flags"]
ABSENT_ON_A_CPU = re.compile(r"Capture target|Capturing batches")
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


@pytest.fixture
def fake_engine(tmp_path: Path) -> FakeEngine:
    board = tmp_path / "board"
    board.mkdir()
    return FakeEngine(board)


class Started:
    """A fake engine that was started as the supervisor starts SGLang."""

    def __init__(self, engine: FakeEngine, port: int, *flags: str) -> None:
        self.engine = engine
        self.port = port
        self.log = engine.directory / "log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [engine.python, "-m", MODULE, "--model-path", "/models/tiny", "--port", str(port), *flags],
                env={"PATH": os.environ["PATH"], **engine.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_ready(self) -> "Started":
        wait_for(lambda: self.said("ready to roll"), 10, "ready")
        return self

    def said(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def ask(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers=headers, trust_env=False)

    def chat(self, **body: Any) -> httpx.Response:
        request = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]} | body
        return httpx.post(f"http://127.0.0.1:{self.port}/v1/chat/completions", json=request, trust_env=False)

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(10)


@contextmanager
def started(engine: FakeEngine, ports: Iterator[int], *flags: str) -> Iterator[Started]:
    """Start an engine and end all its processes afterwards."""
    run = Started(engine, next(ports), *flags)
    try:
        yield run
    finally:
        for pid in [pid for pids in engine.processes().values() for pid in pids]:
            os.kill(pid, signal.SIGKILL)
        run.process.wait()


def wordings(log: str) -> list[str]:
    """Return a log's lines and redraws without what differs from run to run."""
    lines = [re.sub(r"^\[[\d: -]+\] ", "", line) for line in re.split(r"[\r\n]+", log)]
    return [re.sub(r"=\{.*\}|=\[.*\]| *\d+(\.\d+)?|\?", "N", line).strip() for line in lines]


def keys(document: object) -> object:
    """Return a document's shape: its keys, without the values."""
    if isinstance(document, dict):
        return {key: keys(value) for key, value in document.items()}
    if isinstance(document, list):
        return [keys(entry) for entry in document[:1]] if document and isinstance(document[0], dict) else []
    return None


def test_every_line_of_a_start_is_one_that_the_real_engine_prints_and_in_its_order(
    fake_engine: FakeEngine, free_ports: Iterator[int]
):
    with started(fake_engine, free_ports) as run:
        run.wait_ready()
        run.terminate()
        said = [line for line in wordings(run.log.read_text()) if not ABSENT_ON_A_CPU.search(line)]
    said = [line for line in said if line.startswith(("Init", "Load", "KV", "Memory", "Multi", "max", "INFO", "The"))]
    real = wordings(RECORDED_LOG.read_text())

    assert len(said) > 15
    cursor = 0
    for line in said:
        place = next((place for place in range(cursor, len(real)) if alike(real[place], line)), None)
        assert place is not None, f"not said by the real engine after {real[cursor - 1]!r}: {line!r}"
        cursor = place if line.startswith("Multi") else place + 1  # a bar is redrawn any number of times


def alike(real: str, fake: str) -> bool:
    """Tell whether two wordings are the same line; long ones of the real engine may go on."""
    return real == fake or (len(fake) > 60 and real.startswith(fake[:60]))


def test_questions_are_answered_in_the_real_engines_shapes(fake_engine: FakeEngine, free_ports: Iterator[int]):
    with started(fake_engine, free_ports, "--served-model-name", "tiny", "--api-key", "k") as run:
        run.wait_ready()
        key = {"Authorization": "Bearer k"}
        asked = {
            "/ready": run.ask("/ready"),
            "/health": run.ask("/health"),
            "/model_info": run.ask("/model_info", **key),
            "/v1/models": run.ask("/v1/models", **key),
            "/v1/loads": run.ask("/v1/loads?include=core&format=json", **key),
            "unauthorized": run.ask("/v1/models"),
            "no such path": run.ask("/nothere", **key),
        }
    for name, answer in asked.items():
        recorded = RECORDED_ANSWERS[name]
        assert answer.status_code == recorded["status"], name
        assert answer.headers.get("content-type") == recorded["content_type"], name
        if recorded["body"]:
            shape = keys(json.loads(recorded["body"]))
            assert isinstance(shape, dict)
            left_out = {"embedding"}  # of /model_info; long, and nobody reads it
            assert keys(answer.json()) == {key: value for key, value in shape.items() if key not in left_out}, name


def test_its_flags_are_a_part_of_the_real_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SITE)
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    real = {spelling: flag for flag in RECORDED_FLAGS for spelling in flag["spellings"]}
    for action in parser._actions[1:]:
        for spelling in action.option_strings:
            assert set(action.choices or ()) <= set(real[spelling].get("choices", ())), spelling
            assert (action.nargs == 0) == (real[spelling]["kind"] == "bare"), spelling


@pytest.mark.parametrize("stream", [False, True])
def test_with_both_parsers_thought_and_call_come_apart(
    fake_engine: FakeEngine, free_ports: Iterator[int], *, stream: bool
):
    with started(fake_engine, free_ports, "--reasoning-parser", "qwen3", "--tool-call-parser", "qwen") as run:
        answer = run.wait_ready().chat(tools=TOOLS, stream=stream)
    if stream:
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        deltas = [event["choices"][0]["delta"] for event in events]
        calls = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
        assert answer.text.endswith("data: [DONE]\n\n")
        assert "".join(delta["reasoning_content"] or "" for delta in deltas) == "\nThe user asks.\n"
        assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
        assert calls[0]["name"] == "get_weather"
        assert json.loads("".join(call["arguments"] for call in calls)) == {"city": "Zurich"}
    else:
        message = answer.json()["choices"][0]["message"]
        assert message["reasoning_content"] == "\nThe user asks.\n"
        assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Zurich"}


def test_without_parsers_everything_stays_in_the_content(fake_engine: FakeEngine, free_ports: Iterator[int]):
    with started(fake_engine, free_ports) as run:
        answer = run.wait_ready().chat(tools=TOOLS).json()["choices"][0]
    assert answer["finish_reason"] == "stop"
    assert answer["message"]["reasoning_content"] is None
    assert "tool_calls" not in answer["message"]
    assert answer["message"]["content"].startswith("<think>\nThe user")
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zurich"}}' in answer["message"]["content"]


def test_a_key_in_the_configuration_file_counts(fake_engine: FakeEngine, free_ports: Iterator[int], tmp_path: Path):
    config = tmp_path / "keys.yaml"
    config.write_text('api-key: "sesame"\n')
    with started(fake_engine, free_ports, "--config", str(config)) as run:
        run.wait_ready()
        assert run.ask("/v1/models").status_code == 401
        assert run.ask("/v1/models", Authorization="Bearer sesame").status_code == 200
        assert run.said("'api_key': 'sesame'")


def test_sigterm_waits_for_a_request_in_flight_and_ends_with_0(fake_engine: FakeEngine, free_ports: Iterator[int]):
    fake_engine.turn(inference_s=0.3)
    with started(fake_engine, free_ports) as run:
        run.wait_ready()
        with httpx.Client(trust_env=False) as client:
            stream = client.stream(
                "POST",
                f"http://127.0.0.1:{run.port}/v1/chat/completions",
                json={"messages": [{"role": "user", "content": "hello"}], "stream": True},
            )
            with stream as answer:
                run.process.terminate()
                assert answer.read().endswith(b"data: [DONE]\n\n")
        assert run.process.wait(10) == 0
        assert run.said("Remaining number of requests 1. ")
        assert run.said("Remaining number of requests 0. ")
        assert fake_engine.processes() == {}


def test_sigterm_while_loading_has_its_default_action_and_takes_the_children_along(
    fake_engine: FakeEngine, free_ports: Iterator[int]
):
    fake_engine.turn(hangs_at="load")
    with started(fake_engine, free_ports) as run:
        wait_for(lambda: run.said("Multi-thread"), 10, "the bar")
        assert run.terminate() == -signal.SIGTERM
        wait_for(lambda: not fake_engine.processes(), 5, "no process")


@pytest.mark.parametrize(
    ("ends_by", "status", "words"),
    [
        ("exit 3", 3, ""),
        ("SIGKILL", -signal.SIGKILL, ""),
        ("scheduler SIGKILL", 1, "Rank 0 scheduler died during initialization (exit code: -9)."),
        ("scheduler exception", -signal.SIGKILL, "Received sigquit from a child process."),
    ],
)
def test_it_ends_in_the_phase_and_the_way_it_was_told(
    fake_engine: FakeEngine, free_ports: Iterator[int], ends_by: str, status: int, words: str
):
    fake_engine.turn(ends_at="load", ends_by=ends_by)
    with started(fake_engine, free_ports) as run:
        assert run.process.wait(10) == status
        assert run.said(words)
        assert run.said("Load weight begin.")
        assert not run.said("Load weight end.")


def test_a_dead_scheduler_takes_a_serving_engine_along(fake_engine: FakeEngine, free_ports: Iterator[int]):
    with started(fake_engine, free_ports) as run:
        run.wait_ready()
        (scheduler,) = fake_engine.processes()["sglang::schedul"]
        os.kill(scheduler, signal.SIGKILL)
        assert run.process.wait(10) == -signal.SIGKILL
        assert run.said(f"Subprocess scheduler_0 (pid={scheduler}) crashed with exit code -9.")
        assert run.said("SIGQUIT received. signum=3")


def test_each_start_has_its_own_switches(fake_engine: FakeEngine, free_ports: Iterator[int]):
    fake_engine.switch(Switches(ends_at="start", ends_by="exit 5"), Switches())
    with started(fake_engine, free_ports) as first:
        assert first.process.wait(10) == 5
    with started(fake_engine, free_ports) as second:
        second.wait_ready()
    assert [start["pid"] for start in fake_engine.starts()] == [first.process.pid, second.process.pid]


def test_a_running_engines_answers_can_be_turned(fake_engine: FakeEngine, free_ports: Iterator[int]):
    with started(fake_engine, free_ports) as run:
        assert run.wait_ready().chat().status_code == 200
        fake_engine.turn(inference_status=500)
        assert run.chat().status_code == 500
        assert run.ask("/ready").status_code == 200


def test_children_and_an_orphan_outlive_a_clean_stop_where_they_are_told_to(
    fake_engine: FakeEngine, free_ports: Iterator[int]
):
    fake_engine.turn(children_stay=True, orphan=True)
    with started(fake_engine, free_ports) as run:
        run.wait_ready()
        assert run.terminate() == 0
        left = fake_engine.processes()
        assert sorted(left) == ["sglang::detoken", "sglang::orphan", "sglang::schedul"]
        for pids in left.values():
            os.kill(pids[0], signal.SIGTERM)
        assert fake_engine.processes() == left


def test_it_is_ready_in_a_fraction_of_a_second(fake_engine: FakeEngine, free_ports: Iterator[int]):
    began = time.monotonic()
    with started(fake_engine, free_ports) as run:
        run.wait_ready()
        assert time.monotonic() - began < 2  # 0.3 s on an idle machine


def test_an_unknown_phase_is_refused_where_the_test_is_written():
    with pytest.raises(ValueError, match="laod"):
        Switches(hangs_at="laod")


def test_asking_for_flags_is_fast():
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", "from sglang.srt.server_args import ServerArgs"],
        env={"PYTHONPATH": str(SITE)},
        check=True,
    )
    assert time.monotonic() - began < 2
