"""``supervise drain``: stop taking requests, finish those in flight, stop."""

import json
import sys

from entrypoint.cli.parse import Call
from entrypoint.cli.where import ask, find


def perform(call: Call) -> int:
    """Ask a run to drain; return 0 once it has said yes."""
    run = find(call.options.where, call.options.token_file)
    response = ask(run, "POST", "/drain")
    response.raise_for_status()
    if call.options.format == "json":
        sys.stdout.write(json.dumps(response.json()) + "\n")
    else:
        sys.stdout.write(f"{run.url} drains and then stops\n")
    return 0
