"""One run of the engine, supervised or by hand, looked at from outside."""

import http.client
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.row import NotMeasuredError

START_S = 180.0
LOOK_S = 0.02
ANSWER_S = 5.0
TAIL_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class EngineRun:
    """An engine that was started.

    Attributes:
        process: Our child: the supervisor, or the engine's main process.
        began_at: When it was started, by the monotonic clock.
        engine_port: Where the engine listens.
        output: What our child prints.
    """

    process: subprocess.Popen[bytes]
    began_at: float
    engine_port: int
    output: Path

    def seconds_to_healthy(self) -> float:
        """Wait until the engine says that it is ready; return the seconds since the start."""
        self.wait_for_200(self.engine_port, "/ready")
        return time.monotonic() - self.began_at

    def wait_for_200(self, port: int, path: str) -> None:
        """Look at a port until it answers 200.

        Raises:
            NotMeasuredError: The run ended before, or it takes too long.
        """
        while status_of(port, path) != http.client.OK:
            if self.process.poll() is not None:
                raise NotMeasuredError(f"ended with {self.process.returncode} before it was ready: {self.tail()}")
            if time.monotonic() - self.began_at > START_S:
                raise NotMeasuredError(f"{path} did not answer 200 within {START_S:g} s: {self.tail()}")
            time.sleep(LOOK_S)

    def tail(self) -> str:
        """Return the end of what it printed, on one line."""
        return tail(self.output.read_text(errors="replace"))


@dataclass(frozen=True, slots=True)
class SupervisedRun(EngineRun):
    """An engine under supervise.

    Attributes:
        health_port: Where the supervisor answers.
        logs: Directory in which it makes its run directory.
    """

    health_port: int
    logs: Path

    def wait_answering(self) -> None:
        """Wait until the supervisor's own endpoints answer."""
        self.wait_for_200(self.health_port, "/livez")

    def wait_serving(self) -> None:
        """Wait until the supervisor says that clients may come."""
        self.wait_for_200(self.health_port, "/readyz")

    def supervisor(self) -> psutil.Process:
        """Return the supervisor's process."""
        return psutil.Process(self.process.pid)

    def warden(self) -> psutil.Process:
        """Return the process between the supervisor and the engine.

        Raises:
            NotMeasuredError: There is none.
        """
        for process in self.supervisor().children():
            if any(word.endswith("warden.py") for word in process.cmdline()):
                return process
        raise NotMeasuredError("the supervisor has no warden")

    def engine(self) -> psutil.Process:
        """Return the engine's main process: the warden's first child; later ones are orphans that it adopted."""
        return min(self.warden().children(), key=psutil.Process.create_time)

    def run_directory(self) -> Path:
        """Return the directory in which the run tells what happened."""
        (directory,) = self.logs.iterdir()
        return directory


def status_of(port: int, path: str) -> int | None:
    """Return the status with which a port of this machine answers; None when it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def tail(text: str) -> str:
    """Return the end of a text on one line, without the frames of tables."""
    return " ".join(text.encode("ascii", "ignore").decode().split())[-TAIL_CHARACTERS:]
