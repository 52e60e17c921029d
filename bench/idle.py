"""What the supervisor costs while its engine idles: memory and processor."""

import subprocess
import time

import psutil

from bench.lab import Lab
from bench.record import Record, Topic
from bench.row import Kind, Measurement, NotMeasuredError, Row
from bench.runs import SupervisedRun

SUPERVISOR_RSS, SUPERVISOR_PSS = "supervisor RSS", "supervisor PSS"
WARDEN_RSS, WARDEN_PSS = "warden RSS", "warden PSS"
LIBRARIES_RSS, LIBRARIES_PSS = "libraries RSS", "libraries PSS"
PROCESSOR = "processor"
SERIES = frozenset(
    {SUPERVISOR_RSS, SUPERVISOR_PSS, WARDEN_RSS, WARDEN_PSS, LIBRARIES_RSS, LIBRARIES_PSS, PROCESSOR},
)
MEMORY_LIMIT_MB = 70.0
PROCESSOR_LIMIT_PERCENT = 0.5
WINDOW_S = 20.0
"""A clock tick of 10 ms is a twentieth of a percent of this; the profile's first canary comes later."""
BYTES_PER_MB = 1e6


def watch(lab: Lab, run: SupervisedRun, record: Record) -> None:
    """Look at a supervisor whose engine serves nobody."""
    supervisor, warden = run.supervisor(), run.warden()
    began_at, before_s = time.monotonic(), _processor_s(supervisor) + _processor_s(warden)
    time.sleep(WINDOW_S)
    used_s = _processor_s(supervisor) + _processor_s(warden) - before_s
    record.add(PROCESSOR, 100 * used_s / (time.monotonic() - began_at))
    # The libraries' process starts after the supervisor was looked at: pages they share would halve its PSS.
    _add_memory(record, supervisor, SUPERVISOR_RSS, SUPERVISOR_PSS)
    _add_memory(record, warden, WARDEN_RSS, WARDEN_PSS)
    libraries = _start_libraries(lab)
    _add_memory(record, psutil.Process(libraries.pid), LIBRARIES_RSS, LIBRARIES_PSS)
    libraries.kill()
    libraries.wait()


def _processor_s(process: psutil.Process) -> float:
    """Return the processor time of all threads, of those that have ended as well, to a clock tick."""
    times = process.cpu_times()
    return times.user + times.system


def _add_memory(record: Record, process: psutil.Process, rss_series: str, pss_series: str) -> None:
    memory = process.memory_full_info()
    record.add(rss_series, memory.rss / BYTES_PER_MB)
    record.add(pss_series, memory.pss / BYTES_PER_MB)


def _start_libraries(lab: Lab) -> subprocess.Popen[bytes]:
    process = lab.start_module("bench.libraries")
    if process.stdout is None or not process.stdout.readline():
        raise NotMeasuredError("the libraries alone could not be imported")
    return process


def rows(record: Record) -> tuple[Row, ...]:
    """Return the rows: the limits count the supervisor's memory, and both processes' processor time."""
    return (
        _memory(record, SUPERVISOR_RSS, record.measurement(LIBRARIES_RSS), MEMORY_LIMIT_MB, Kind.AT_MOST),
        _memory(record, SUPERVISOR_PSS, record.measurement(LIBRARIES_PSS), None, Kind.SHOWN),
        _memory(record, WARDEN_RSS, None, None, Kind.SHOWN),
        _memory(record, WARDEN_PSS, None, None, Kind.SHOWN),
        Row(
            "idle between canaries: processor, supervisor and warden",
            record.measurement(PROCESSOR),
            "% of a core",
            None,
            "",
            PROCESSOR_LIMIT_PERCENT,
            Kind.AT_MOST,
        ),
    )


def _memory(record: Record, series: str, peer: Measurement | None, limit: float | None, kind: Kind) -> Row:
    peer_name = "the named libraries alone" if peer else ""
    return Row(f"idle: {series}", record.measurement(series), "MB", peer, peer_name, limit, kind)


TOPIC = Topic("idle", SERIES, rows)
