"""A foreign command: the environment is set, and the process becomes that command.

An image's entry point is given commands that are not ours: a shell to look around, or pyxis' own, which stops itself
so that tasks can join its namespaces. Whatever it is, it must run, also where our settings are broken.
"""

import difflib
import os
from collections.abc import Mapping

from entrypoint.cli.parse import COMMANDS, Call
from entrypoint.cli.streams import complain
from entrypoint.outcome import ExitCode, SuperviseError

HOME = "HOME"
"""Left alone: the engine wants a persistent one, a person wants theirs."""


def perform(call: Call) -> int:
    """Become the command; returns only when that fails.

    Raises:
        SuperviseError: The command does not exist or cannot be executed.
    """
    environment = engine_environment(os.environ)
    try:
        os.execvpe(call.foreign[0], call.foreign, environment)  # noqa: S606  # becoming that command is the purpose
    except OSError as error:
        raise _not_executed(call.foreign[0], error) from error


def engine_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the engine's cache and network variables set, where the settings allow it."""
    from entrypoint.cli.prepare import prepare_resolved
    from entrypoint.node.facts import working_directory
    from entrypoint.settings.layers import load

    try:
        resolved = load(
            profile=None, config_files=(), overrides=(), extra_arguments=(), environ=environ, cwd=working_directory()
        )
        plan = prepare_resolved(resolved, environ).plan
    except SuperviseError as error:
        complain(f"supervise: the command runs without the engine's environment: {error.message}\n")
        return dict(environ)
    result = dict(environ)
    for variable in plan.environment:
        if variable.name == HOME:
            continue
        if variable.value is None:
            result.pop(variable.name, None)
        else:
            result[variable.name] = variable.value
    return result


def _not_executed(command: str, error: OSError) -> SuperviseError:
    nearest = difflib.get_close_matches(command, COMMANDS, n=1)
    meant = f"Did you mean supervise {nearest[0]}? " if nearest else ""
    return SuperviseError(
        f"{command} is no command of supervise, and as a program it cannot be executed: {error.strerror}.",
        remedy=f"{meant}The commands are: {', '.join(COMMANDS)}.",
        code=ExitCode.USAGE,
    )
