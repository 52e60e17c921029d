"""``supervise wait``: block until a server is ready, and print where it is."""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx

from entrypoint.cli.parse import Call
from entrypoint.cli.streams import complain
from entrypoint.cli.where import Run, find, status_of
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.readable import shortened

LOOK_S = 1.0
FILLED_S = 10.0
"""Seconds after which a directory that is there holds its plan, also on a network file system."""
GONE_S = 60.0
"""Seconds without any answer, after there was one, until a run is called gone."""


def perform(call: Call) -> int:
    """Wait for a run; return 0 when it is ready, or the code that it ended with."""
    deadline = None if call.options.timeout is None else time.monotonic() + call.options.timeout
    run = _appear(call, deadline)
    _wait_until_ready(run, deadline)
    endpoint = _endpoint(run)
    if call.options.export:
        sys.stdout.write("\n".join(_exports(endpoint, key_known=run.directory is not None)) + "\n")
    elif call.options.format == "json":
        sys.stdout.write(json.dumps(endpoint) + "\n")
    else:
        sys.stdout.write(f"{endpoint['url']}\n")
    return 0


def _exports(endpoint: dict[str, Any], *, key_known: bool) -> Iterator[str]:
    """Yield lines for a shell; a key that is there already is the caller's where we do not know any."""
    yield f"export OPENAI_BASE_URL={shlex.quote(endpoint['url'])}"
    yield f"export OPENAI_API_KEY={shlex.quote(endpoint['api_key'] or NO_KEY) if key_known else UNKNOWN_KEY}"


NO_KEY = "none"
"""Clients insist on a key, and a server without one ignores it."""
UNKNOWN_KEY = f'"${{OPENAI_API_KEY:-{NO_KEY}}}"'


def _appear(call: Call, deadline: float | None) -> Run:
    """Return the run, waiting for a directory that is not there yet, and a moment for what should lie in it."""
    where = call.options.where
    found_at: float | None = None
    told = False
    while True:
        try:
            return find(where, call.options.token_file)
        except SuperviseError:
            if "://" in where:
                raise
            if os.path.exists(where):  # noqa: PTH110  # unlike Path.exists it takes any name
                found_at = found_at or time.monotonic()
                if time.monotonic() - found_at >= FILLED_S:
                    raise
            elif not told:
                complain(f"supervise: waiting for {shortened(where)} to appear\n")
                told = True
        _pause(deadline, f"{where} has not appeared")


def _wait_until_ready(run: Run, deadline: float | None) -> None:
    seen_at: float | None = None
    state = "not answering"
    while True:
        _raise_if_ended(run)
        try:
            with run.client() as client:
                response = client.get("/readyz")
        except httpx.HTTPError:
            if seen_at is not None and time.monotonic() - seen_at > GONE_S:
                raise SuperviseError(
                    f"{run.url} has answered nothing for {GONE_S:.0f} s; it was {state}.",
                    remedy="See the report in its run directory.",
                    code=ExitCode.RETRY_ELSEWHERE,
                ) from None
        else:
            if response.status_code == httpx.codes.OK:
                return
            seen_at = time.monotonic()
            state = _state(response, state)
        _pause(deadline, f"{run.url} is not ready: {state}")


def _state(response: httpx.Response, before: str) -> str:
    try:
        body: Any = response.json()
        state: str = body["state"]
    except (ValueError, KeyError, TypeError):
        return f"answering {response.status_code}"
    if state != before:
        complain(f"supervise: {state}\n")
    return state


def _raise_if_ended(run: Run) -> None:
    """Raise when a run's directory holds a report: it is over."""
    if run.directory is None:
        return
    reports = sorted(run.directory.glob("report-*.json"))
    if not reports:
        return
    page = reports[0].with_suffix(".md")
    try:
        report = json.loads(reports[0].read_text(encoding="utf-8"))
        summary, remedy, code = report["summary"], report["remedy"], ExitCode(report["code"])
    except (OSError, ValueError, KeyError, TypeError):
        summary, remedy, code = f"its report {reports[0]} cannot be read.", "", ExitCode.ENGINE_FAILED
    raise SuperviseError(
        f"The run is over: {summary}",
        remedy=remedy or f"See {page}.",
        code=code or ExitCode.ENGINE_FAILED,  # one that was stopped as asked is not ready either
    )


def _pause(deadline: float | None, what: str) -> None:
    if deadline is not None and time.monotonic() + LOOK_S > deadline:
        raise SuperviseError(
            f"Waited long enough: {what}.",
            remedy="Give a longer --timeout, or see supervise status.",
            code=ExitCode.RETRY_ELSEWHERE,
        )
    time.sleep(LOOK_S)


def _endpoint(run: Run) -> dict[str, Any]:
    """Return the endpoint of a run that is ready: from its file, which holds the key, else from what it says."""
    if run.directory is not None:
        try:
            endpoint: dict[str, Any] = json.loads((run.directory / "endpoint.json").read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise SuperviseError(
                f"{run.url} is ready, but {run.directory} holds no endpoint.json.",
                remedy="Ask again: it has just begun to drain, or the file system is late.",
                code=ExitCode.RETRY_ELSEWHERE,
            ) from error
        except OSError as error:
            raise SuperviseError(
                f"The run is ready, but its endpoint file cannot be read: {error.strerror}.",
                remedy="It belongs to whoever started the run.",
                code=ExitCode.NOT_PERMITTED,
            ) from error
        return endpoint
    status = status_of(run)
    return {"url": status["url"], "model": status["model"], "health_url": run.url, "api_key": None}
