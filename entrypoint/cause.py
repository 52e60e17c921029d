"""Causes: what can end a run, what each means for the exit code, and whether a retry can help."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from entrypoint.outcome import ExitCode


class Cause(StrEnum):
    """The kind of a cause."""

    CONFIGURATION = "configuration"
    """A flag, a value, or several that do not go together."""
    CHECKPOINT = "checkpoint"
    """Files of the model are missing, broken, or of a kind that this engine does not know."""
    PERMISSION = "permission"
    """The model or the token does not permit the download."""
    MEMORY = "memory"
    """The node, a cgroup or a device had no memory left, or too little was given to the engine."""
    STORAGE = "storage"
    """A directory is full, or cannot be written."""
    DEVICE = "device"
    """A GPU is missing, hidden, or broken."""
    PORT = "port"
    """A port is taken."""
    NETWORK = "network"
    """The fabric, a rendezvous or a peer."""
    HANG = "hang"
    """Something took longer than a watchdog allows."""
    KERNEL = "kernel"
    """A GPU kernel faulted, could not be built, or does not know this case."""
    ENGINE = "engine"
    """The engine itself failed, in a way that is not known better."""
    SCHEDULER = "scheduler"
    """The job's scheduler ended it: time limit, cancellation, preemption, node failure."""
    SELF_CHECK = "self-check"
    """It serves, but not what it should."""
    SUPERVISOR = "supervisor"
    """The supervisor failed."""
    STOPPED = "stopped"
    """It was asked to stop."""
    UNKNOWN = "unknown"
    """Nothing that is known fits."""


class Confidence(StrEnum):
    """How sure a verdict is; each rule of the explanation states its own."""

    CERTAIN = "certain"
    """The cause says so itself, or a counter of the kernel does."""
    PROBABLE = "probable"
    """Independent signs agree, and none speaks against it."""
    POSSIBLE = "possible"
    """One weak sign; named so that a person can look, never acted upon."""
    UNKNOWN = "unknown"
    """No cause is named."""


class Retry(StrEnum):
    """Whether starting again can help."""

    NEVER = "never"
    """The same settings end the same."""
    CHANGED = "changed"
    """Only when something is changed first."""
    HERE = "here"
    """Also in place, on this node."""
    ELSEWHERE = "elsewhere"
    """On another node."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """What a cause means.

    Attributes:
        code: Exit code of a run that ends with it.
        retry: Whether starting again can help.
    """

    code: ExitCode
    retry: Retry


CONSEQUENCES: Mapping[Cause, Consequence] = MappingProxyType(
    {
        Cause.CONFIGURATION: Consequence(ExitCode.CONFIGURATION, Retry.NEVER),
        Cause.CHECKPOINT: Consequence(ExitCode.CONFIGURATION, Retry.NEVER),
        Cause.PERMISSION: Consequence(ExitCode.NOT_PERMITTED, Retry.NEVER),
        Cause.MEMORY: Consequence(ExitCode.OUT_OF_MEMORY, Retry.CHANGED),
        Cause.STORAGE: Consequence(ExitCode.DIRECTORY_UNUSABLE, Retry.CHANGED),
        Cause.DEVICE: Consequence(ExitCode.NODE_UNFIT, Retry.ELSEWHERE),
        Cause.PORT: Consequence(ExitCode.NODE_UNFIT, Retry.ELSEWHERE),
        Cause.NETWORK: Consequence(ExitCode.RETRY_ELSEWHERE, Retry.HERE),
        Cause.HANG: Consequence(ExitCode.RETRY_ELSEWHERE, Retry.HERE),
        Cause.KERNEL: Consequence(ExitCode.ENGINE_FAILED, Retry.HERE),
        Cause.ENGINE: Consequence(ExitCode.ENGINE_FAILED, Retry.HERE),
        Cause.SCHEDULER: Consequence(ExitCode.RETRY_ELSEWHERE, Retry.ELSEWHERE),
        Cause.SELF_CHECK: Consequence(ExitCode.SELF_CHECK_FAILED, Retry.CHANGED),
        Cause.SUPERVISOR: Consequence(ExitCode.ENGINE_FAILED, Retry.NEVER),
        Cause.STOPPED: Consequence(ExitCode.STOPPED, Retry.NEVER),
        Cause.UNKNOWN: Consequence(ExitCode.ENGINE_FAILED, Retry.HERE),
    }
)
