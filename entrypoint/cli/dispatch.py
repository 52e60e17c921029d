"""Which function a command is, and how its failure is told."""

import signal
import sys
from importlib import import_module

from entrypoint.cli.parse import Call
from entrypoint.cli.streams import complain, drop
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.readable import shortened


def dispatch(call: Call) -> int:
    """Perform a command; return its exit code."""
    try:
        code = _perform(call)
        sys.stdout.flush()
    except SuperviseError as error:
        complain(shortened(f"supervise: {error.message}\n{error.remedy}\n"))
        return int(error.code)
    except KeyboardInterrupt:  # Ctrl-C, where it is no request to drain
        drop(sys.stdout)
        return 128 + signal.SIGINT
    except OSError as error:
        is_run = call.command == "run" and not call.options.dry_run
        if is_run or error.filename is not None:
            raise  # a file or pipe of the work itself: a fault, which must not look like a good end
        return _output_lost(error)
    return code


def _output_lost(error: OSError) -> int:
    """Return the exit code where our output cannot be written; a reader who has seen enough is left in peace."""
    drop(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return 0
    complain(f"supervise: The output cannot be written: {error.strerror}.\nFree space there, or send it elsewhere.\n")
    return int(ExitCode.DIRECTORY_UNUSABLE)


PLACES = {
    "run": "entrypoint.cli.run",
    "check": "entrypoint.cli.check",
    "plan": "entrypoint.cli.plan",
    "warm": "entrypoint.cli.warm",
    "verify": "entrypoint.cli.verify",
    "wait": "entrypoint.cli.wait",
    "status": "entrypoint.cli.status",
    "drain": "entrypoint.cli.drain",
    "diagnose": "entrypoint.cli.diagnose",
    "profiles": "entrypoint.cli.profiles",
    "edf": "entrypoint.cli.edf",
    "sbatch": "entrypoint.cli.sbatch",
    "foreign": "entrypoint.cli.foreign",
}
"""The module of each command; each has one function ``perform(call)``. Only the one asked for is imported."""


def _perform(call: Call) -> int:
    code: int = import_module(PLACES[call.command]).perform(call)
    return code
