"""What a plan needs to know of the machine and the caller, read once."""

import os
import pwd
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from entrypoint.node.accelerators import accelerators
from entrypoint.node.slurm import SlurmStep, read_step
from entrypoint.outcome import ExitCode, SuperviseError

OWN_VARIABLES = "SUPERVISE_"
"""Prefix of the supervisor's own settings, which no engine needs to see."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The machine and the caller as plain data.

    Attributes:
        environ: The caller's environment without the supervisor's own variables.
        home: The caller's home directory.
        cwd: The working directory.
        host_name: This machine's name, as peers would call it.
        step: The Slurm step that this process is a task of, or None.
        user_id: The caller's number.
        architecture: Of the GPUs, such as gfx942; empty where there are none.
    """

    environ: Mapping[str, str]
    home: Path
    cwd: Path
    host_name: str
    step: SlurmStep | None
    user_id: int = 0
    architecture: str = ""

    @property
    def nodes(self) -> int:
        """Number of nodes that take part."""
        return self.step.nodes_in_step if self.step else 1

    @property
    def rank(self) -> int:
        """Rank of this node among them."""
        return self.step.node_rank if self.step else 0


def working_directory() -> Path:
    """Return the working directory.

    Raises:
        SuperviseError: It was removed, or is not to be seen by this user.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise SuperviseError(
            f"The working directory cannot be determined: {error.strerror}.",
            remedy="Change to a directory that exists, and start again.",
            code=ExitCode.DIRECTORY_UNUSABLE,
        ) from error


def _home_of_user() -> str:
    """Return this user's home directory as the system knows it; a container may know nothing of the user."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir or "/"
    except KeyError:
        return "/"


def read(environ: Mapping[str, str]) -> NodeFacts:
    """Read the facts of this machine for the given environment.

    Raises:
        SuperviseError: A Slurm variable makes no sense, or there is no working directory.
    """
    return NodeFacts(
        environ={name: value for name, value in environ.items() if not name.startswith(OWN_VARIABLES)},
        home=Path(environ.get("HOME") or _home_of_user()),
        cwd=working_directory(),
        host_name=socket.gethostname(),
        step=read_step(environ),
        user_id=os.getuid(),
        architecture=next((each.architecture for each in accelerators()), ""),
    )
