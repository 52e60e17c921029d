"""The crew: builders under the engine's Python that share out the steps, each on a GPU of its own.

A builder that hangs or dies costs the step that it was at, and no other.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from entrypoint.warm.jit.result import Outcome, StepResult, judge, last_lines
from entrypoint.warm.jit.step import Step

BUILDER = Path(__file__).with_name("under_engine") / "builder.py"
LARGEST_OUTPUT_BYTES = 4 << 20
"""Of what a step prints, so much is read: the end of it."""
KILL_S = 10.0
"""Seconds after which a builder that SIGKILL did not end is left to the kernel, which holds it."""


def _nobody(_pid: int) -> None:
    """Take no note of a child."""


@dataclass(frozen=True, slots=True)
class CrewPlan:
    """How steps are built.

    Attributes:
        python: The engine's interpreter.
        environment: The engine's environment.
        workers: Steps that are built at once.
        jobs: Compilers that each of them may run at once.
        timeout_s: Seconds that a step may take.
        by_gpu: Each builder gets a GPU of its own.
        own: Told of each builder's process id: whoever reaps children must leave it alone.
        disown: Told when it has been reaped.
    """

    python: Path
    environment: Mapping[str, str]
    workers: int
    jobs: int
    timeout_s: float
    by_gpu: bool = False
    own: Callable[[int], None] = _nobody
    disown: Callable[[int], None] = _nobody


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a crew has come.

    Attributes:
        done: Steps that are over.
        total: All steps.
        at: What is being built, each with the time at which it was begun.
        last: The step that ended last; None at first.
    """

    done: int
    total: int
    at: Mapping[str, float] = field(default_factory=dict)
    last: StepResult | None = None


async def build(
    steps: Iterable[Step], plan: CrewPlan, on_progress: Callable[[Progress], None]
) -> tuple[StepResult, ...]:
    """Build every step; return what became of each, in the order in which they were done.

    Cancelled, it ends its builders.

    Args:
        steps: The steps.
        plan: How they are built.
        on_progress: Told of each step that begins or ends.
    """
    crew = _Crew(tuple(steps), plan, on_progress)
    async with asyncio.TaskGroup() as group:
        for number in range(min(plan.workers, len(crew.waiting))):
            group.create_task(crew.work(number), name=f"builder-{number}")
    return tuple(crew.results)


class _Crew:
    def __init__(self, steps: tuple[Step, ...], plan: CrewPlan, on_progress: Callable[[Progress], None]) -> None:
        self.waiting = list(reversed(steps))
        self.results: list[StepResult] = []
        self._total = len(steps)
        self._plan = plan
        self._on_progress = on_progress
        self._at: dict[str, float] = {}

    async def work(self, number: int) -> None:
        """Take one step after the other."""
        builder: _Builder | None = None
        try:
            while self.waiting:
                step = self.waiting.pop()
                self._at[step.name] = time.time()
                self._tell(None)
                builder = builder or _Builder(self._plan, number)
                result = await builder.perform(step)
                if result.outcome in {Outcome.TIMED_OUT, Outcome.CRASHED}:
                    await builder.end()
                    builder = None
                self._at.pop(step.name, None)
                self.results.append(result)
                self._tell(result)
        finally:
            if builder is not None:
                await builder.end()

    def _tell(self, last: StepResult | None) -> None:
        self._on_progress(Progress(len(self.results), self._total, dict(self._at), last))


class _Builder:
    """One builder's process, started with its first step."""

    def __init__(self, plan: CrewPlan, number: int) -> None:
        self._plan = plan
        self._environment = _environment(plan, number)
        self._output = _output_file()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: asyncio.StreamReader | None = None
        self._transport: asyncio.ReadTransport | None = None

    async def perform(self, step: Step) -> StepResult:
        """Build a step; return what became of it."""
        began = time.monotonic()
        os.ftruncate(self._output.fileno(), 0)
        try:
            line = await asyncio.wait_for(self._ask(step), self._plan.timeout_s)
        except TimeoutError:
            reason = f"it took longer than warm.timeout_s, {self._plan.timeout_s:g} s"
            return StepResult(step, Outcome.TIMED_OUT, time.monotonic() - began, (), reason, last_lines(self._said()))
        except OSError as error:  # it could not be started, or has ended before it was asked
            return StepResult(step, Outcome.CRASHED, 0, (), f"the builder: {error}", last_lines(self._said()))
        seconds = time.monotonic() - began
        if not line:
            return StepResult(step, Outcome.CRASHED, seconds, (), await self._end_reason(), last_lines(self._said()))
        return judge(step, json.loads(line), self._said(), self._environment, Path.exists)

    async def _ask(self, step: Step) -> bytes:
        if self._process is None:
            await self._start()
        question = json.dumps({"name": step.name, "call": step.call, "module": step.module}) + "\n"
        stdin = self._process.stdin if self._process else None
        if stdin is None or self._answers is None:
            raise BrokenPipeError("it was never started")
        stdin.write(question.encode())
        stdin.flush()
        return await self._answers.readline()

    async def _start(self) -> None:
        reading, writing = os.pipe()
        try:
            # Started here, not in a thread, so that the reaper knows it from its first moment; starting does not block.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                [str(self._plan.python), str(BUILDER), str(writing)],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._plan.own(self._process.pid)
        self._answers = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._answers or asyncio.StreamReader()), os.fdopen(reading, "rb", 0)
        )

    def _said(self) -> bytes:
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), LARGEST_OUTPUT_BYTES, max(0, size - LARGEST_OUTPUT_BYTES))

    async def _end_reason(self) -> str:
        await self._reap()
        status = self._process.returncode if self._process else None
        if status is None:
            return "its builder closed its line"
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"its builder {how}"

    async def end(self) -> None:
        """End the builder and everything that it started."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            await self._reap()
        if self._transport is not None:
            self._transport.close()
        self._output.close()

    async def _reap(self) -> None:
        """Wait for the builder's end, as long as a kernel may take that."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        descriptor = os.pidfd_open(process.pid)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, ended.set)
        try:
            async with asyncio.timeout(KILL_S):
                await ended.wait()
            process.wait()
        except TimeoutError:
            return
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self._plan.disown(process.pid)


def _environment(plan: CrewPlan, number: int) -> dict[str, str]:
    own = {"MAX_JOBS": str(plan.jobs)} | ({"HIP_VISIBLE_DEVICES": str(number)} if plan.by_gpu else {})
    return {**plan.environment, **own}


def _output_file() -> BinaryIO:
    """Return a file in memory for what a builder prints; a pipe would have to be emptied, and would block it."""
    file = os.fdopen(os.memfd_create("builder"), "w+b", buffering=0)
    # Every write goes to its end, wherever that is: it is emptied between two steps.
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return file
