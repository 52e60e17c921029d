"""How soon a death of the engine is told."""

import json
import time

from bench import processes
from bench.record import Record, Topic
from bench.row import Kind, NotMeasuredError, Row
from bench.runs import SupervisedRun
from entrypoint.outcome import ExitCode

REPORTED = "crash to report"
LIMIT_S = 0.5
END_S = 60.0


def seconds_to_report(run: SupervisedRun) -> float:
    """Kill the engine's main process while it serves; return the seconds until the supervisor is gone.

    Raises:
        NotMeasuredError: It did not end, left no right report, or left processes behind.
    """
    engine = run.engine()
    began_at = time.monotonic()
    engine.kill()
    if not processes.wait_ended([run.process.pid], END_S):
        raise NotMeasuredError(f"the supervisor is still there {END_S:g} s after its engine's death")
    seconds = time.monotonic() - began_at
    if left := processes.living():
        raise NotMeasuredError(f"the supervisor left {len(left)} processes behind")
    _require_report(run)
    return seconds


def _require_report(run: SupervisedRun) -> None:
    path = run.run_directory() / "report-0.json"
    try:
        code = json.loads(path.read_text())["code"]
    except (OSError, ValueError, KeyError) as error:
        raise NotMeasuredError(f"no report of the crash: {error!r}") from error
    if not code == run.process.wait() == ExitCode.ENGINE_FAILED:
        raise NotMeasuredError(f"ended with {run.process.returncode}, {code} in the report: {run.tail()}")


def rows(record: Record) -> tuple[Row, ...]:
    """Return the row."""
    name = "engine killed while serving to supervisor gone, report written"
    return (Row(name, record.measurement(REPORTED), "s", None, "", LIMIT_S, Kind.AT_MOST),)


TOPIC = Topic("crash", frozenset({REPORTED}), rows)
