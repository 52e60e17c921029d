"""The place where everything is measured: its environment, engine, ports, directories and processes."""

import itertools
import json
import os
import random
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import processes
from bench.row import NotMeasuredError
from bench.runs import EngineRun, SupervisedRun, tail

ROOT = Path(__file__).resolve().parent.parent
PREPARE = ROOT / "images" / "cpu" / "prepare.py"
SUPERVISE = Path(sys.executable).with_name("supervise")
PORTS = range(20000, 30000)
"""Below the range from which the kernel takes the ports of outgoing connections."""
COMMAND_S = 180.0
ENGINE_SETTINGS = ("SUPERVISE_ENGINE__PYTHON", "SUPERVISE_MODEL__PATH")


class Lab:
    """Starts what is measured, in an environment of its own, and ends it.

    Args:
        directory: For everything that is written; somebody else removes it.
        environ: The caller's environment. Names the engine, or ``images/cpu/prepare.py`` is asked for it.

    Attributes:
        round_number: Which round it is, from 1.
        directory: For what is written while measuring.
        environment: Of every process that is started.
    """

    def __init__(self, directory: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.round_number = 1
        self.environment = _environment(directory, environ)
        self.directory = directory
        self._started: list[subprocess.Popen[bytes]] = []
        self._run_numbers = itertools.count(1)
        self._ports = _free_ports()
        self._environ = environ
        self._engine_problem: str | None = None

    def require_engine(self) -> None:
        """Find the engine when it is first needed, and let supervise store its flags, as a user's first run does.

        Raises:
            NotMeasuredError: There is none; says why.
        """
        if self._engine_problem is None:
            self._engine_problem = self._look_for_engine()
        if self._engine_problem:
            raise NotMeasuredError(self._engine_problem)

    def _look_for_engine(self) -> str:
        """Return why there is no engine; empty when there is one."""
        try:
            self.environment |= _engine(self._environ)
            self.run([str(SUPERVISE), "check", "--profile", "tiny", *self._port_options(self.free_port())])
        except NotMeasuredError as problem:
            return str(problem)
        return ""

    def free_port(self) -> int:
        """Return a port that nobody listens on, another one each time."""
        return next(self._ports)

    def run(self, command: Sequence[str]) -> str:
        """Run a command to its end; return what it printed on stdout.

        Raises:
            NotMeasuredError: It failed, or did not end.
        """
        try:
            done = subprocess.run(
                command,
                env=self.environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise NotMeasuredError(
                f"{shlex.join(command)} ended with {error.returncode}: {tail(error.stdout + error.stderr)}"
            ) from error
        except (subprocess.TimeoutExpired, OSError) as error:
            raise NotMeasuredError(str(error)) from error
        return done.stdout

    def start(
        self, command: Sequence[str], *, output: int, cwd: Path | None = None, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own, so that Ctrl-C reaches this one alone."""
        process = subprocess.Popen(
            command,
            env=self.environment,
            cwd=cwd or self.directory,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT if output != subprocess.PIPE else None,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def start_module(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a module of ours with pipes to its stdin and from its stdout."""
        command = [sys.executable, "-m", module, *arguments]
        return self.start(command, output=subprocess.PIPE, cwd=ROOT, stdin=subprocess.PIPE)

    def supervised(self, *options: str) -> SupervisedRun:
        """Start the real engine under supervise."""
        self.require_engine()
        engine_port, health_port, directory = self.free_port(), self.free_port(), self._run_directory()
        ports = self._port_options(engine_port, health_port)
        logs = directory / "logs"
        command = [str(SUPERVISE), "--profile", "tiny", *ports, "--logs.dir", str(logs), *options]
        began_at, process, output = self._start_run(command, directory)
        return SupervisedRun(process, began_at, engine_port, output, health_port, logs)

    def by_hand(self) -> EngineRun:
        """Start the same engine with the command that the dry run prints."""
        self.require_engine()
        engine_port = self.free_port()
        shown = self.run([str(SUPERVISE), "--profile", "tiny", *self._port_options(engine_port), "--dry-run"])
        began_at, process, output = self._start_run(["sh", "-c", f"exec {shown}"], self._run_directory())
        return EngineRun(process, began_at, engine_port, output)

    def clear(self) -> None:
        """End every process that was started, and everything below."""
        processes.end_all()
        while self._started:
            process = self._started.pop()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        processes.reap_orphans()

    def _start_run(self, command: Sequence[str], directory: Path) -> tuple[float, subprocess.Popen[bytes], Path]:
        path = directory / "output"
        with path.open("wb") as output:
            began_at = time.monotonic()
            return began_at, self.start(command, output=output.fileno(), cwd=directory), path

    def _run_directory(self) -> Path:
        directory = self.directory / f"run-{next(self._run_numbers)}"
        directory.mkdir()
        return directory

    def _port_options(self, engine_port: int, health_port: int | None = None) -> list[str]:
        return ["--engine.port", str(engine_port), "--health.port", str(health_port or self.free_port())]


def _environment(directory: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment without settings of a run or a job, and with a home that is empty."""
    kept = {name: value for name, value in environ.items() if not name.startswith(("SUPERVISE_", "SLURM_"))}
    return {
        **kept,
        "HOME": str(directory),
        "SUPERVISE_CACHES__SHARED": str(directory / "caches"),
        "SUPERVISE_CACHES__LOCAL": str(directory / "local"),
    }


def _engine(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that name the engine and its model.

    Raises:
        NotMeasuredError: There is no engine.
    """
    if all(environ.get(name) for name in ENGINE_SETTINGS):
        return {name: environ[name] for name in ENGINE_SETTINGS}
    done = subprocess.run(
        [sys.executable, str(PREPARE), "--print-only", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    if done.returncode != 0:
        raise NotMeasuredError(f"there is no engine: {tail(done.stderr)}")
    where = json.loads(done.stdout)
    return dict(zip(ENGINE_SETTINGS, (where["python"], next(iter(where["models"].values()))), strict=True))


def _free_ports() -> Iterator[int]:
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port
