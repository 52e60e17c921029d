"""``supervise status``: what a run is doing."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from entrypoint.cli.parse import Call
from entrypoint.cli.where import find, status_of
from entrypoint.verdict.wording import size


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
    if status.get("memory"):
        yield from _memory_lines(status["memory"])
    for finding in status["findings"]:
        yield f"{finding['severity']:<8}  {finding['rule']}: {finding['message']}"
    if status["verdict"]:
        yield f"ended     {status['verdict']['summary']}"


def _memory_lines(memory: dict[str, Any]) -> Iterator[str]:
    """Yield how much memory is left, of what, and how soon that ends; nothing where the kernel does not tell."""
    if memory["headroom_bytes"] is None:
        return
    limit = f" of {size(memory['limit_bytes'] or memory['total_bytes'])}"
    soon = memory["seconds_to_floor"]
    when = f", at the floor in about {soon:.0f} s" if soon is not None else ""
    yield f"memory    {size(memory['headroom_bytes'])} left{limit}, floor {size(memory['floor_bytes'])}{when}"
    yield f"memory    {size(memory['engine_bytes'] or 0)} held by the engine's processes"
