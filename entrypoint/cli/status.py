"""``supervise status``: what a run is doing."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from entrypoint.cli.parse import Call
from entrypoint.cli.where import find, status_of


def perform(call: Call) -> int:
    """Print the whole picture of a run; return 0."""
    run = find(call.options.where, call.options.token_file)
    status = status_of(run)
    if call.options.format == "json":
        sys.stdout.write(json.dumps(status, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(status)) + "\n")
    return 0


def _lines(status: dict[str, Any]) -> Iterator[str]:
    ready = "ready" if status["ready"] else "not ready"
    why = f" ({'; '.join(status['reasons'])})" if status["reasons"] else ""
    yield f"{status['model']} at {status['url']}: {status['state']}, {ready}{why}"
    if status["progress"]:
        yield f"progress  {status['progress']}"
    for phase in status["phases"]:
        lasted = "now" if phase["lasted_s"] is None else f"{phase['lasted_s']:.1f} s"
        yield f"  {phase['name']:<12} {lasted:>10}"
    for title in ("engine", "load"):
        for name, value in (status[title] or {}).items():
            yield f"{title:<8}  {name} = {value}"
    for finding in status["findings"]:
        yield f"{finding['severity']:<8}  {finding['rule']}: {finding['message']}"
    if status["verdict"]:
        yield f"ended     {status['verdict']['summary']}"
