"""How long it takes until nothing of an idle server is left."""

import os
import signal
import time

from bench import processes
from bench.lab import Lab
from bench.record import Record, Topic
from bench.row import Kind, Row
from bench.runs import EngineRun

SUPERVISED, MAIN_PROCESS, GROUP = "stop of supervise", "SIGTERM to the main process", "SIGTERM to the group"
LIMIT_S = 2.0
GONE_S = 60.0
LOOK_S = 5
"""SGLang looks for SIGTERM at this interval: how long it takes depends on where in the interval the signal comes."""


def seconds_by_main_process(lab: Lab, run: EngineRun) -> float:
    """Send SIGTERM to our child, supervisor or engine; return the seconds until every process is gone."""
    _spread(lab)
    began_at = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    return processes.seconds_until_alone(began_at, GONE_S)


def seconds_by_group(lab: Lab, run: EngineRun) -> float:
    """Send SIGTERM to our child's process group; return the seconds until every process is gone."""
    _spread(lab)
    began_at = time.monotonic()
    os.killpg(run.process.pid, signal.SIGTERM)
    return processes.seconds_until_alone(began_at, GONE_S)


def _spread(lab: Lab) -> None:
    """Let the signals of the rounds fall on different places between two looks of the engine."""
    time.sleep(lab.round_number % LOOK_S)


def rows(record: Record) -> tuple[Row, ...]:
    """Return one row per way to stop an engine without us."""
    name = "SIGTERM when idle to everything gone"
    stopped = record.measurement(SUPERVISED)
    return tuple(
        Row(name, stopped, "s", record.measurement(series), f"raw SGLang, {series}", LIMIT_S, Kind.AT_MOST)
        for series in (MAIN_PROCESS, GROUP)
    )


TOPIC = Topic("stop", frozenset({SUPERVISED, MAIN_PROCESS, GROUP}), rows)
