"""Commands that live behind a warden as engines do, and their processes, which are found by a mark."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from entrypoint.exit_status import ExitStatus
from entrypoint.run.child import EngineChild

PATIENCE_S = 20.0
"""Longest wait for something that takes milliseconds on an idle machine."""
MARK = "ENGINE_OF_TEST"
"""Variable in the environment of every process of an engine."""


def processes_of(mark: str) -> set[int]:
    """Return the ids of the processes whose environment holds a mark; a zombie has none."""
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (directory / "environ").read_bytes():
                found.add(int(directory.name))
        except OSError:  # it ended while we looked
            continue
    return found


def kill_all(mark: str) -> None:
    """Kill the processes that bear a mark, each by its id, until none is left: a shell goes on when its child dies."""
    deadline = time.monotonic() + PATIENCE_S
    while left := processes_of(mark):
        assert time.monotonic() < deadline, f"processes that SIGKILL does not end: {left}"
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Return when a condition holds; fail when that takes too long."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not within {PATIENCE_S} s: {what}"
        await asyncio.sleep(0.005)


@dataclass
class Life:
    """One engine behind its warden, what was told of it and what it printed."""

    mark: str
    told: list[str] = field(default_factory=list)
    status: ExitStatus | None = None
    error: OSError | None = None
    output: bytearray = field(default_factory=bytearray)
    child: EngineChild = field(init=False)

    # As the listener of its child

    def on_started(self, pid: int) -> None:
        self.told.append("started" if pid == self.child.pid else f"started {pid}")

    def on_spawn_failed(self, error: OSError) -> None:
        self.error = error
        self.told.append("failed")

    def on_exited(self, status: ExitStatus | None) -> None:
        self.status = status
        self.told.append("exited")

    def on_gone(self) -> None:
        self.told.append("gone")

    # For those who watch

    def read(self, fd: int) -> None:
        with os.fdopen(fd, "rb") as pipe:
            while data := pipe.read1():
                self.output += data

    @property
    def text(self) -> str:
        return self.output.decode()

    async def says(self, words: str) -> None:
        await until(lambda: words in self.text, f"the engine says {words!r}; it said {self.text!r}")

    async def ends(self) -> None:
        await until(lambda: "gone" in self.told, f"the engine is gone; told was {self.told}")

    async def is_in(self, *states: str) -> None:
        """Return when the main process is in one of some states of the kernel."""
        stat = Path(f"/proc/{self.child.pid}/stat")
        await until(lambda: stat.read_text().rpartition(")")[2].split()[0] in states, f"it is in {states}")

    def processes(self) -> set[int]:
        """Return the engine's processes, without the warden."""
        return processes_of(self.mark) - {self.child.warden_pid}


During = Callable[[Life], Awaitable[None]]


async def live(argv: Sequence[str], environment: Mapping[str, str], mark: str, during: During | None) -> Life:
    """Start a command behind a warden, do something meanwhile, and wait for its end."""
    read_end, write_end = os.pipe()
    life = Life(mark)
    reader = threading.Thread(target=life.read, args=(read_end,), daemon=True)
    reader.start()
    life.child = EngineChild(argv, environment, write_end, life)
    try:
        if during is not None:
            await during(life)
        await life.ends()
    finally:
        life.child.kill()
        await life.ends()
        reader.join(PATIENCE_S)
    return life
