"""Measures the supervisor beside what it replaces, and prints one table; ends with 1 when a promise is broken."""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import psutil

from bench import (
    commands,
    crash,
    diagnose,
    idle,
    log_pipe,
    memory_sample,
    processes,
    readyz,
    seeding,
    signatures,
    start,
    stop,
    table,
)
from bench.lab import SUPERVISE, Lab
from bench.record import Record, Topic
from bench.row import NotMeasuredError, Row
from bench.sittings import SITTINGS, Sitting

TOPICS = (
    commands.TOPIC,
    start.TOPIC,
    stop.TOPIC,
    crash.TOPIC,
    idle.TOPIC,
    readyz.TOPIC,
    log_pipe.TOPIC,
    memory_sample.TOPIC,
    signatures.TOPIC,
    diagnose.TOPIC,
    seeding.TOPIC,
)
ROUNDS = 5
"""Fewer are a trial: a median of one is whatever happened."""

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Measure what the command line asks for."""
    options = _parse()
    if not SUPERVISE.exists():
        sys.stderr.write(f"There is no {SUPERVISE}: run 'make venv', and this with its Python.\n")
        return 1
    if options.rounds < ROUNDS:
        sys.stderr.write(f"Fewer than {ROUNDS} rounds are a trial, not a measurement.\n")
    topics = [topic for topic in TOPICS if topic.name in (options.only or [topic.name])]
    rows = _measure(topics, options.rounds)
    if options.format == "json":
        print(json.dumps({"rounds": options.rounds, "rows": [row.data() for row in rows]}, indent=2))
    else:
        table.show(rows)
    return 0 if all(row.ok for row in rows) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=[topic.name for topic in TOPICS], help="rows to measure; repeatable"
    )
    parser.add_argument("--rounds", type=_at_least_one, default=ROUNDS, help="measurements that a median is taken of")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="for people or for programs")
    return parser.parse_args()


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _measure(topics: Sequence[Topic], rounds: int) -> tuple[Row, ...]:
    record = Record(frozenset[str]().union(*(topic.series for topic in topics)))
    processes.adopt_orphans()
    for number in ENDING_SIGNALS:
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="supervise-bench-", ignore_cleanup_errors=True) as directory:
        lab = Lab(Path(directory))
        try:
            for lab.round_number in range(1, rounds + 1):
                for sitting in SITTINGS:
                    if record.wants(*sitting.yields):
                        sys.stderr.write(f"round {lab.round_number} of {rounds}: {sitting.name}\n")
                        _sit(sitting, lab, record)
        finally:
            for number in ENDING_SIGNALS:
                signal.signal(number, signal.SIG_IGN)  # what is being killed now is killed to the end
            lab.clear()
    return tuple(row for topic in topics for row in topic.rows(record))


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """End, and let everything that was started be killed on the way."""
    raise KeyboardInterrupt(signal.Signals(number).name)


def _sit(sitting: Sitting, lab: Lab, record: Record) -> None:
    """Do one sitting; what it could not measure is noted with the reason."""
    before = {series: record.count(series) for series in sitting.yields}
    try:
        try:
            sitting.run(lab, record)
        finally:
            lab.clear()
    except (NotMeasuredError, OSError, subprocess.SubprocessError, psutil.Error) as error:
        sys.stderr.write(f"  not measured: {error}\n")
        for series, count in before.items():
            if record.count(series) == count:
                record.fail(series, f"round {lab.round_number}: {error}")


if __name__ == "__main__":
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130
    except NotMeasuredError as held:
        sys.stderr.write(f"{held}\n")
        status = 1
    sys.exit(status)
