"""Which function a command is, and how its failure is told."""

import sys
from importlib import import_module

from entrypoint.cli.parse import Call
from entrypoint.outcome import SuperviseError


def dispatch(call: Call) -> int:
    """Perform a command; return its exit code."""
    try:
        return _perform(call)
    except SuperviseError as error:
        sys.stderr.write(f"supervise: {error.message}\n{error.remedy}\n")
        return int(error.code)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 0


PLACES = {
    "run": "entrypoint.cli.run",
    "check": "entrypoint.cli.check",
    "verify": "entrypoint.cli.verify",
    "wait": "entrypoint.cli.wait",
    "status": "entrypoint.cli.status",
    "drain": "entrypoint.cli.drain",
    "profiles": "entrypoint.cli.profiles",
    "foreign": "entrypoint.cli.foreign",
}
"""The module of each command; each has one function ``perform(call)``. Only the one asked for is imported."""


def _perform(call: Call) -> int:
    code: int = import_module(PLACES[call.command]).perform(call)
    return code
