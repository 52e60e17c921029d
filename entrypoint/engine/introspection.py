"""Asks an engine for its flags: starts ``introspect.py`` with the engine's Python and reads what it prints.

The parts are apart so that a caller with its own way of starting processes can use them: the command, the reading of
what it printed, and the errors. ``introspect`` puts them together for a worker thread.
"""

import errno
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from signal import Signals
from typing import Final

from entrypoint.engine.flags import FlagTable
from entrypoint.outcome import ExitCode, SuperviseError

SCRIPT: Final = Path(__file__).with_name("introspect.py")
_SCRIPT_FAILED: Final = 3
_REMEDY: Final = (
    "Set engine.python to an interpreter with which `python -c 'import sglang'` works in the engine's environment."
)
_LINE_CHARACTERS: Final = 300


def introspect(python: Path, environment: Mapping[str, str], timeout_s: float) -> FlagTable:
    """Return the flags of the engine that an interpreter imports; takes several seconds.

    Args:
        python: The engine's interpreter.
        environment: The whole environment of the engine; PYTHONPATH and the engine's own variables matter.
        timeout_s: How long it may take.

    Raises:
        SuperviseError: If the interpreter cannot be started, cannot import sglang, or does not answer in time.
    """
    try:
        done = subprocess.run(
            introspection_command(python),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise not_started(python, error) from error
    except subprocess.TimeoutExpired as error:
        raise timed_out(python, timeout_s) from error
    return parse_introspection(done.stdout, done.stderr, done.returncode, python=python)


def introspection_command(python: Path) -> list[str]:
    """Return the command that prints the flags; its exit status and output go to ``parse_introspection``.

    Neither ``-I`` nor ``-E``: PYTHONPATH is part of how the engine is found.
    """
    return [str(python), str(SCRIPT)]


def parse_introspection(stdout: bytes, stderr: bytes, returncode: int, *, python: Path) -> FlagTable:
    """Return the flags that the script printed.

    Args:
        stdout: Its standard output, whole.
        stderr: Its standard error; the last line explains a crash.
        returncode: Its exit status, negative for the signal that ended it.
        python: The interpreter, for the message.

    Raises:
        SuperviseError: If it printed no flags; says why.
    """
    if returncode == _SCRIPT_FAILED:
        raise _reported(stdout, stderr, python)
    if returncode != 0:
        raise _crashed(stderr, returncode, python)
    try:
        return FlagTable.from_json(stdout)
    except ValueError as error:
        raise _error(
            f"{python} was asked for the engine's flags and printed something else ({error}).",
            remedy="Check that nothing in the engine's environment (sitecustomize, a wrapper) prints or replaces it.",
        ) from error


def not_started(python: Path, error: OSError) -> SuperviseError:
    """Return the error for an interpreter that could not be started."""
    if isinstance(error, FileNotFoundError):
        # A script or a dynamic program also counts as not found when what it needs to start is missing.
        reason = "does not exist" if not python.exists() else "names an interpreter or loader that does not exist"
    elif isinstance(error, PermissionError):
        reason = "is a directory" if python.is_dir() else "may not be executed by this user"
    else:
        reason = f"cannot be started ({error.strerror or error})"
    if error.errno == errno.ENOEXEC:
        reason = "is no program that this machine can start: a text without an interpreter, or of another architecture"
    return _error(f"The engine's Python {python} {reason}.")


def timed_out(python: Path, timeout_s: float) -> SuperviseError:
    """Return the error for an interpreter that did not answer in time."""
    return _error(
        f"{python} did not tell the engine's flags within {timeout_s:g} s.",
        remedy="Importing sglang hangs or its file system is slow: try the import by hand on this node. If it is only "
        "slow, raise deadlines.check_s.",
        code=ExitCode.RETRY_ELSEWHERE,
    )


def _reported(stdout: bytes, stderr: bytes, python: Path) -> SuperviseError:
    """Return the error that the script itself reported."""
    try:
        report = json.loads(stdout)
        reason, kind = str(report["error"]), str(report["kind"])
    except (ValueError, KeyError, TypeError):
        return _crashed(stderr, _SCRIPT_FAILED, python)
    what = "cannot import sglang" if kind == "import" else "imports sglang, but cannot build its argument parser"
    return _error(f"{python} {what}: {reason.rstrip('.')}.")


def _crashed(stderr: bytes, returncode: int, python: Path) -> SuperviseError:
    """Return the error for a script that ended by a signal or with a foreign status."""
    how = f"was ended by {_signal_name(-returncode)}" if returncode < 0 else f"ended with status {returncode}"
    last = _last_line(stderr)
    return _error(f"{python} {how} while importing sglang{f': {last}' if last else ''}.")


def _signal_name(number: int) -> str:
    """Return a signal's name, or its number where it has none."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(output: bytes) -> str:
    """Return the last line of an output that says something, cut to a readable length."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:_LINE_CHARACTERS].rstrip(".") if lines else ""


def _error(message: str, *, remedy: str = _REMEDY, code: ExitCode = ExitCode.CONFIGURATION) -> SuperviseError:
    """Return an error, by default one of the configuration: which engine is used is a setting."""
    return SuperviseError(message, remedy=remedy, code=code)
