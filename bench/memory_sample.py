"""What one look at memory costs the processor, beside the same done with psutil."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from bench.lab import Lab
from bench.record import Record, Topic
from bench.row import Kind, NotMeasuredError, Row
from entrypoint.run.memory_watch import MemoryWatch
from entrypoint.settings.schema import WatchSettings

SAMPLE, PSUTIL = "memory sample", "memory sample with psutil"
PROCESSES = 10
LOOKS = 500
LIMIT_MS = 1.0
SLEEPERS = f"for _ in $(seq {PROCESSES}); do sleep 600 & done; echo; wait"


def sit(lab: Lab, record: Record) -> None:
    """Look at an engine of ten processes as the watch does, searches for processes and lines of JSON included."""
    engine = lab.start(["bash", "-c", SLEEPERS], output=subprocess.PIPE)
    if engine.stdout is None or not engine.stdout.readline():
        raise NotMeasuredError("the processes to be looked at did not start")
    unused = Path("/nonexistent")
    watch = MemoryWatch(unused, WatchSettings(), on_state=lambda _: None, on_low=lambda _: None)
    watch.follow(engine.pid)
    state = watch.step()
    if state is None or len(state.sample.processes) != PROCESSES:
        raise NotMeasuredError(f"the watch saw something else than {PROCESSES} processes")
    record.add(SAMPLE, _milliseconds(watch.step))
    record.add(PSUTIL, _milliseconds(lambda: _with_psutil(engine.pid)))


def _with_psutil(pid: int) -> None:
    """Read the node's memory and that of each process; no groups, GPUs, pressure or counters."""
    psutil.virtual_memory()
    for process in psutil.Process(pid).children(recursive=True):
        process.memory_info()


def _milliseconds(look: Callable[[], object]) -> float:
    """Return the processor time of one look."""
    begin_s = time.thread_time()
    for _ in range(LOOKS):
        look()
    return (time.thread_time() - begin_s) / LOOKS * 1000


def rows(record: Record) -> tuple[Row, ...]:
    """Return the row."""
    return (
        Row(
            f"memory sample of {PROCESSES} processes: processor",
            record.measurement(SAMPLE),
            "ms",
            record.measurement(PSUTIL),
            "less of it, with psutil",
            LIMIT_MS,
            Kind.AT_MOST,
        ),
    )


TOPIC = Topic("memory-sample", frozenset({SAMPLE, PSUTIL}), rows)
