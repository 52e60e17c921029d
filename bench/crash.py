"""How soon a death of the engine is told."""

import json
import time
from dataclasses import dataclass

from bench import processes
from bench.record import Record, Topic
from bench.row import Kind, NotMeasuredError, Row
from bench.runs import SupervisedRun
from entrypoint.outcome import ExitCode

REPORTED = "crash to report"
GONE = "crash to end"
LIMIT_S = 0.5
END_S = 60.0
FORMS = ("json", "md", "html")


@dataclass(frozen=True, slots=True)
class Told:
    """How soon a crash was told.

    Attributes:
        reported_s: Seconds until the last form of the report was on disk, by its file's time of writing.
        gone_s: Seconds until the supervisor was gone.
    """

    reported_s: float
    gone_s: float


def crash(run: SupervisedRun) -> Told:
    """Kill the engine's main process while it serves.

    Raises:
        NotMeasuredError: It did not end, left no right report, or left processes behind.
    """
    engine = run.engine()
    began_unix_s, began_at = time.time(), time.monotonic()
    engine.kill()
    if not processes.wait_ended([run.process.pid], END_S):
        raise NotMeasuredError(f"the supervisor is still there {END_S:g} s after its engine's death")
    seconds = time.monotonic() - began_at
    if left := processes.living():
        raise NotMeasuredError(f"the supervisor left {len(left)} processes behind")
    _require_report(run)
    written = max((run.run_directory() / f"report-0.{form}").stat().st_mtime for form in FORMS)
    return Told(written - began_unix_s, seconds)


def _require_report(run: SupervisedRun) -> None:
    path = run.run_directory() / "report-0.json"
    try:
        code = json.loads(path.read_text())["code"]
    except (OSError, ValueError, KeyError) as error:
        raise NotMeasuredError(f"no report of the crash: {error!r}") from error
    if not code == run.process.wait() == ExitCode.ENGINE_FAILED:
        raise NotMeasuredError(f"ended with {run.process.returncode}, {code} in the report: {run.tail()}")


def rows(record: Record) -> tuple[Row, ...]:
    """Return the rows."""
    reported, gone = record.measurement(REPORTED), record.measurement(GONE)
    return (
        Row("engine killed while serving to its report on disk", reported, "s", None, "", LIMIT_S, Kind.AT_MOST),
        Row("engine killed while serving to supervisor gone", gone, "s", None, "", None, Kind.SHOWN),
    )


TOPIC = Topic("crash", frozenset({REPORTED, GONE}), rows)
