"""Runs ``supervise`` as users do, as a process, and looks at it from outside."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

SUPERVISE = (sys.executable, "-m", "entrypoint")
POLL_S = 0.02
READY_S = 120
"""Seconds that SGLang may take to be ready on a busy machine; on an idle one it takes fifteen."""


def wait_for(condition: Callable[[], Any], within_s: float, what: str) -> Any:
    """Return the first true value of a condition, looked at until a time limit."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(POLL_S)
    raise AssertionError(f"not within {within_s} s: {what}")


def is_running(pid: int) -> bool:
    """Return whether a process lives; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Supervised:
    """One run of supervise.

    Attributes:
        arguments: Its command line.
        environment: Its whole environment.
        directory: Where it runs; logs go below.
        engine_port: The engine's port.
        health_port: Its own.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    engine_port: int
    health_port: int
    process: subprocess.Popen[bytes] = field(init=False)
    started: bool = False
    seen: set[int] = field(default_factory=set)

    def start(self) -> "Supervised":
        with (self.directory / "stdout").open("wb") as stdout, (self.directory / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [*SUPERVISE, *self.arguments],
                env=dict(self.environment),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.started = True
        return self

    def __enter__(self) -> "Supervised":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill what is left, by process id."""
        for pid in self.tree():
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)

    # From outside

    def tree(self) -> set[int]:
        """Return the ids of every process of this run that was ever seen, the supervisor's included."""
        try:
            below = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            below = []
        self.seen |= {self.process.pid, *(process.pid for process in below)}
        return self.seen

    def named(self, part: str) -> psutil.Process:
        """Return the process of this run whose command line or name holds a text."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            if part in " ".join(process.cmdline()) or part in process.name():
                self.tree()
                return process
        raise AssertionError(f"no process of this run is called {part}")

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.health_port}{path}", timeout=10, trust_env=False)

    def status(self) -> dict[str, Any]:
        """Return /status; fails where nobody answers."""
        status: dict[str, Any] = self.get("/status").json()
        return status

    def state(self) -> str:
        """Return the state as /readyz tells it, or why it cannot be told."""
        try:
            state: str = self.get("/readyz").json()["state"]
        except httpx.HTTPError:
            return "not answering"
        return state

    def wait_state(self, state: str, within_s: float = 30) -> None:
        def reached() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} before {state}:\n{self.stderr()}")
            return self.state() == state

        wait_for(reached, within_s, f"{state}; it is {self.state()}\n{self.stderr()}")
        self.tree()

    def ask(self, message: str, **more: Any) -> dict[str, Any]:
        """Send a chat completion to the engine."""
        body = {"model": "tiny", "messages": [{"role": "user", "content": message}], "temperature": 0, **more}
        response = httpx.post(
            f"http://127.0.0.1:{self.engine_port}/v1/chat/completions", json=body, timeout=60, trust_env=False
        )
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def signal(self, number: int) -> None:
        self.tree()
        self.process.send_signal(number)

    def wait(self, within_s: float = 30) -> int:
        """Return the exit code."""
        self.tree()
        return self.process.wait(within_s)

    def assert_nothing_left(self, within_s: float = 5) -> None:
        """Every process that was ever seen in this run is gone."""
        wait_for(lambda: not [pid for pid in self.seen if is_running(pid)], within_s, "every process gone")

    # What it leaves

    def stderr(self) -> str:
        return (self.directory / "stderr").read_text(errors="replace")

    def stdout(self) -> str:
        return (self.directory / "stdout").read_text(errors="replace")

    @property
    def run_directory(self) -> Path:
        (found,) = (self.directory / "logs").iterdir()
        return found

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.run_directory / "report-0.json").read_text())
        return report

    def events(self) -> list[dict[str, Any]]:
        lines = (self.run_directory / "events-0.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def states(self) -> list[str]:
        """Return the states that it went through, from its events."""
        return [event["state"] for event in self.events() if event["event"] == "state"]
