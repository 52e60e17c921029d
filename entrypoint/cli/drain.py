"""``supervise drain``: stop taking requests, finish those in flight, stop."""

import json
import sys

import httpx

from entrypoint.cli.parse import Call
from entrypoint.cli.where import ask, find, no_run


def perform(call: Call) -> int:
    """Ask a run to drain; return 0 once it has said yes."""
    run = find(call.options.where, call.options.token_file)
    response = ask(run, "POST", "/drain")
    if response.status_code != httpx.codes.ACCEPTED:
        raise no_run(run, response)
    if call.options.format == "json":
        sys.stdout.write(json.dumps(response.json()) + "\n")
    else:
        sys.stdout.write(f"{run.url} drains and then stops\n")
    return 0
