"""How long the commands that start nothing take."""

import sys
import time
from collections.abc import Sequence

from bench.lab import SUPERVISE, Lab
from bench.record import Record, Topic
from bench.row import Kind, Row

HELP, DRY_RUN, FLOOR = "help", "dry run", "python -c pass"
HELP_LIMIT_S = 0.25
DRY_RUN_LIMIT_S = 0.5
TIMES = 3
"""How often per round: these are over at once."""


def sit(lab: Lab, record: Record) -> None:
    """Run each command in turn; the dry run checks flags against the engine's stored list."""
    for _ in range(TIMES):
        record.add(FLOOR, _seconds(lab, [sys.executable, "-c", "pass"]))
        record.add(HELP, _seconds(lab, [str(SUPERVISE), "--help"]))
        lab.require_engine()
        record.add(DRY_RUN, _seconds(lab, [str(SUPERVISE), "--profile", "tiny", "--dry-run"]))


def _seconds(lab: Lab, command: Sequence[str]) -> float:
    began_at = time.perf_counter()
    lab.run(command)
    return time.perf_counter() - began_at


def rows(record: Record) -> tuple[Row, ...]:
    """Return one row per command."""
    floor = record.measurement(FLOOR)
    return (
        Row("supervise --help", record.measurement(HELP), "s", floor, FLOOR, HELP_LIMIT_S, Kind.AT_MOST),
        Row(
            "supervise --profile tiny --dry-run",
            record.measurement(DRY_RUN),
            "s",
            floor,
            FLOOR,
            DRY_RUN_LIMIT_S,
            Kind.AT_MOST,
        ),
    )


TOPIC = Topic("commands", frozenset({HELP, DRY_RUN, FLOOR}), rows)
