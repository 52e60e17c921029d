"""How fast /readyz answers while the engine loads and takes the processor."""

import json
import statistics
import subprocess
from typing import Any

from bench.lab import Lab
from bench.record import Record, Topic
from bench.row import Kind, NotMeasuredError, Row
from bench.runs import LOOK_S, SupervisedRun, status_of

SUPERVISED, BARE = "p99 of the supervisor", "p99 of a bare uvicorn"
LIMIT_RATIO = 2.0
RATE = 500
SLICE_S = 0.5
ENOUGH_REQUESTS = 1000
"""Below this a hundredth is too few to speak of."""
ANSWER_S = 30.0


def load_until_healthy(lab: Lab, run: SupervisedRun, record: Record) -> None:
    """Load the supervisor and a bare server in turn, from their first answers until the supervisor's engine is ready.

    Raises:
        NotMeasuredError: One of them ended.
    """
    bare_port = lab.free_port()
    bare = lab.start_module("bench.bare_server", str(bare_port))
    run.wait_answering()
    _wait_answering(bare, bare_port)
    generator = lab.start_module("bench.load_generator", str(RATE), str(SLICE_S), str(run.health_port), str(bare_port))
    run.seconds_to_healthy()
    printed, _ = generator.communicate(timeout=ANSWER_S)
    bare.kill()
    bare.wait()
    if generator.returncode != 0:
        raise NotMeasuredError(f"the load generator ended with {generator.returncode}")
    for series, result in zip((SUPERVISED, BARE), json.loads(printed), strict=True):
        if problem := _problem(result):
            record.fail(series, f"round {lab.round_number}: {problem}")
        else:
            record.add(series, statistics.quantiles(result["latencies_s"], n=100)[98] * 1000)


def _wait_answering(server: subprocess.Popen[bytes], port: int) -> None:
    while status_of(port, "/readyz") is None:
        try:
            raise NotMeasuredError(f"the bare server ended with {server.wait(LOOK_S)}")
        except subprocess.TimeoutExpired:
            continue


def _problem(result: dict[str, Any]) -> str:
    """Return why a server's latencies mean nothing; empty where they do."""
    count = len(result["latencies_s"])
    if result["failures"] or result["unanswered"]:
        return f"{result['unanswered']} requests unanswered; {'; '.join(result['failures'])}"
    return "" if count >= ENOUGH_REQUESTS else f"only {count} requests while the engine loaded"


def rows(record: Record) -> tuple[Row, ...]:
    """Return the row."""
    return (
        Row(
            f"/readyz p99 at {RATE} requests/s while the engine loads",
            record.measurement(SUPERVISED),
            "ms",
            record.measurement(BARE),
            "a bare uvicorn",
            LIMIT_RATIO,
            Kind.RATIO,
        ),
    )


TOPIC = Topic("readyz", frozenset({SUPERVISED, BARE}), rows)
