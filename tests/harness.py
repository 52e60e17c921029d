"""Runs ``supervise`` as users do, as a process, and looks at it from outside."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
from fake_control import FakeEngine

SUPERVISE = (sys.executable, "-m", "entrypoint")
POLL_S = 0.02
READY_S = 120
"""Seconds that SGLang may take to be ready on a busy machine; on an idle one it takes fifteen."""


def wait_for(condition: Callable[[], Any], within_s: float, what: str | Callable[[], str]) -> Any:
    """Return the first true value of a condition, looked at until a time limit.

    Args:
        condition: The condition.
        within_s: The time limit.
        what: What is waited for, in words, or a function that tells it when the time is over.
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(POLL_S)
    raise AssertionError(f"not within {within_s} s: {what if isinstance(what, str) else what()}")


def processes_with(entry: str) -> set[int]:
    """Return the ids of the processes whose environment holds an entry; a zombie has none."""
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if entry.encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.add(int(directory.name))
        except OSError:  # it ended while we looked
            continue
    return found


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
        engine: The stand-in engine, where it is one.
        command: What starts it, before the arguments.
        health_host: Where its health endpoints are.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    engine_port: int
    health_port: int
    engine: FakeEngine | None = None
    command: Sequence[str] = SUPERVISE
    health_host: str = "127.0.0.1"
    process: subprocess.Popen[bytes] = field(init=False)
    started: bool = False
    seen: set[int] = field(default_factory=set)

    def start(self) -> None:
        with (self.directory / "stdout").open("wb") as stdout, (self.directory / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [*self.command, *self.arguments],
                env=dict(self.environment),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.started = True

    def __enter__(self) -> Self:
        self.start()
        return self

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
        self.seen |= {self.process.pid, *(process.pid for process in below), *self._bearing_its_mark()}
        return self.seen

    def _bearing_its_mark(self) -> set[int]:
        """Return the processes with this run's board in their environment, wherever in the tree they have gone."""
        return set() if self.engine is None else processes_with(self.engine.mark)

    def named(self, part: str) -> psutil.Process:
        """Return the process of this run whose command line or name holds a text."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            if part in " ".join(process.cmdline()) or part in process.name():
                self.tree()
                return process
        raise AssertionError(f"no process of this run is called {part}")

    @property
    def main(self) -> psutil.Process:
        """The main process of the stand-in engine that was started last."""
        assert self.engine is not None
        return psutil.Process(self.engine.starts()[-1]["pid"])

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self._request("GET", path, headers)

    def post(self, path: str, **headers: str) -> httpx.Response:
        return self._request("POST", path, headers)

    def _request(self, method: str, path: str, headers: Mapping[str, str]) -> httpx.Response:
        address = f"http://{self.health_host}:{self.health_port}{path}"
        # Reading certificates, which plain HTTP has no use for, would take longer than all the rest.
        return httpx.request(method, address, headers=headers, timeout=10, trust_env=False, verify=False)

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

        wait_for(reached, within_s, lambda: f"{state}; it is {self.state()}\n{self.stderr()}")
        self.tree()

    def wait_generation(self, generation: int, within_s: float = 30) -> None:
        """Return when the engine's start of a number, the first being 0, is ready."""
        self.wait_state("ready", within_s)
        wait_for(lambda: self.status()["generation"] == generation, within_s, f"start {generation} of the engine")
        self.wait_state("ready", within_s)

    def ask(self, message: str, **more: Any) -> dict[str, Any]:
        """Send a chat completion to the engine."""
        body = {"model": "tiny", "messages": [{"role": "user", "content": message}], "temperature": 0, **more}
        response = httpx.post(
            f"http://127.0.0.1:{self.engine_port}/v1/chat/completions",
            json=body,
            timeout=180,
            trust_env=False,
            verify=False,
        )
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def in_flight(self) -> int:
        """Return how many requests the engine works on, by its own account."""
        loads = httpx.get(f"http://127.0.0.1:{self.engine_port}/v1/loads", timeout=10, trust_env=False, verify=False)
        running: int = loads.json()["loads"][0]["num_running_reqs"]
        return running

    @contextmanager
    def asking(self) -> Iterator[Future[dict[str, Any]]]:
        """Ask something, and yield the answer that is to come once the request is in flight."""
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.ask, "Hello")
            wait_for(lambda: self.in_flight() == 1, 10, "a request in flight")
            yield answer

    def signal(self, number: int) -> None:
        self.tree()
        self.process.send_signal(number)

    def wait(self, within_s: float = 30) -> int:
        """Return the exit code."""
        self.tree()
        return self.process.wait(within_s)

    def assert_nothing_left(self, within_s: float = 5) -> None:
        """Every process that was ever seen in this run, or bears its mark, is gone."""

        def gone() -> bool:
            return not [pid for pid in self.tree() if is_running(pid)]

        wait_for(gone, within_s, "every process gone")

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
