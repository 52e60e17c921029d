"""How long ``supervise diagnose`` reads a gigabyte of log and in how much memory, beside a count of its lines."""

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.lab import SUPERVISE, Lab
from bench.log_scan import MIX
from bench.record import Record, Topic
from bench.row import Kind, NotMeasuredError, Row

DIAGNOSED, COUNTED, MEMORY = "log diagnosed", "log counted", "diagnosis memory"
BYTES = 1 << 30
LIMIT_S = 15.0
LIMIT_MB = 100.0
FAULT = b"Memory access fault by GPU node-4 (Agent handle: 0x55) on address 0x7f0000000000. Reason: Unknown.\n"
EXPECTED = "gpu.fault"
WITH_PEAK = """
import runpy, sys
from pathlib import Path
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), file=sys.stderr)
"""
"""Runs a program and prints the most memory that it had: what getrusage(2) tells of a child is its parent's."""


def sit(lab: Lab, record: Record) -> None:
    """Diagnose an ordinary log with one fault at its end, and count its lines."""
    path = lab.directory / "diagnosed.log"
    _write(path)
    try:
        begin = time.perf_counter()
        command = [sys.executable, "-c", WITH_PEAK, str(SUPERVISE), "diagnose", str(path), "--format", "json"]
        done = subprocess.run(command, capture_output=True, check=True, env=lab.environment)
        record.add(DIAGNOSED, time.perf_counter() - begin)
        if json.loads(done.stdout)["signature"] != EXPECTED:
            raise NotMeasuredError("the diagnosis is not the one that was to come")
        record.add(MEMORY, int(done.stderr.split()[-1]) * 1024 / 1e6)
        begin = time.perf_counter()
        subprocess.run(["wc", "-l", str(path)], capture_output=True, check=True)
        record.add(COUNTED, time.perf_counter() - begin)
    finally:
        path.unlink()


def _write(path: Path) -> None:
    block = MIX * ((1 << 20) // len(MIX) + 1)
    with path.open("wb") as file:
        while file.tell() < BYTES:
            file.write(block)
        file.write(FAULT)


def rows(record: Record) -> tuple[Row, ...]:
    """Return the rows."""
    return (
        Row(
            "diagnosis of 1 GiB of log",
            record.measurement(DIAGNOSED),
            "s",
            record.measurement(COUNTED),
            "wc -l",
            LIMIT_S,
            Kind.AT_MOST,
        ),
        Row("diagnosis: memory", record.measurement(MEMORY), "MB", None, "", LIMIT_MB, Kind.AT_MOST),
    )


TOPIC = Topic("diagnose", frozenset({DIAGNOSED, COUNTED, MEMORY}), rows)
