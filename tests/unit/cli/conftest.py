"""A user's machine: a home, a working directory and an installed engine that nobody must start."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NoReturn

import pytest

from entrypoint.engine.flag_store import FlagStore
from entrypoint.engine.flags import FlagTable
from entrypoint.tell.api import Api, HealthServer, health_server
from entrypoint.tell.board import Board

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "flags-0.5.23.json"


@dataclass(frozen=True)
class Machine:
    """Where a user works.

    Attributes:
        home: The home directory.
        cwd: The working directory.
        python: The engine's interpreter, which fails if it is ever started.
    """

    home: Path
    cwd: Path
    python: Path

    def snapshot(self) -> dict[str, tuple[int, int]]:
        """Return every file and directory with its size and when it changed."""
        found = [path for root in (self.home, self.cwd) for path in (root, *root.rglob("*"))]
        return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in found}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    home, cwd, venv = tmp_path / "home", tmp_path / "cwd", tmp_path / "venv"
    for directory in (
        home,
        cwd,
        venv / "bin",
        venv / "lib" / "python3.11" / "site-packages" / "sglang-0.5.23.dist-info",
    ):
        directory.mkdir(parents=True)
    python = venv / "bin" / "python3"
    python.write_text("#!/bin/sh\nexit 99\n")
    python.chmod(0o700)
    for name in list(os.environ):
        if name.startswith(("SUPERVISE_", "SLURM", "HF_", "XDG_", "OPENAI_", "NCCL_", "SGL", "AITER_", "PYTHONPATH")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SUPERVISE_ENGINE__PYTHON", str(python))
    monkeypatch.setenv("SUPERVISE_ENGINE__DEVICE", "cpu")  # of which the rules for APUs say nothing
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(cwd)
    return Machine(home, cwd, python)


@pytest.fixture
def flags_stored(machine: Machine) -> None:
    """The engine has been asked for its flags before."""
    store = FlagStore(directory=machine.home / ".cache" / "supervise" / "flags")
    store.save(FlagTable.from_json(RECORDED.read_bytes()), machine.python)


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every attempt to start a process fail."""

    def forbidden(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "execve", "system"):
        monkeypatch.setattr(os, name, forbidden)


@dataclass
class LiveRun:
    """A run's health endpoints, really served, over a board that a test writes.

    Attributes:
        board: What they show.
        url: Where they are.
        stop: Ends them.
        drains: How often a drain was asked for.
        proves: What happens when a proof is asked for; returns whether one will run.
    """

    board: Board
    url: str
    stop: Callable[[], None]
    drains: list[str] = field(default_factory=list)
    proves: Callable[[], bool] = field(default=lambda: False)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def _end(server: HealthServer) -> None:
    server.should_exit = True


@pytest.fixture
def serve() -> Iterator[Callable[..., LiveRun]]:
    """Return a function that serves a board on a free port of loopback."""
    servers: list[tuple[HealthServer, threading.Thread]] = []

    def start(token: str | None = None) -> LiveRun:
        board = Board(about={"model": "tiny", "url": "http://127.0.0.1:1/v1"})
        listener = socket.create_server(("127.0.0.1", 0))
        run = LiveRun(board, f"http://127.0.0.1:{listener.getsockname()[1]}", stop=lambda: _end(server))
        api = Api(board, token=token, drain=lambda: run.drains.append("asked"), prove_again=lambda: run.proves())  # noqa: PLW0108  # a test may set it later
        server = health_server(api.application(), host="127.0.0.1", port=run.port)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        servers.append((server, thread))
        return run

    yield start
    for server, thread in servers:
        _end(server)
        thread.join()


@pytest.fixture
def later() -> Iterator[Callable[[float, Callable[[], object]], None]]:
    """Return a function that does something after some seconds, in a thread."""
    timers: list[threading.Timer] = []

    def start(after_s: float, action: Callable[[], object]) -> None:
        timer = threading.Timer(after_s, action)
        timers.append(timer)
        timer.start()

    yield start
    for timer in timers:
        timer.join()


@dataclass
class Stranger:
    """A server of somebody else, which answers everything with the same JSON."""

    url: str
    authorizations: list[str]


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("authorization", ""))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"state": "ok"}')

        do_POST = do_GET  # noqa: N815  # the names are http.server's

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Stranger(f"http://127.0.0.1:{server.server_port}", seen)
        server.shutdown()
        thread.join()
