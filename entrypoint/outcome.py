"""How a run can end: exit codes, and errors that carry their remedy."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command, all below 128 so that they never look like a signal.

    Slurm reserves 253 and reports the highest code of a step, so the codes stay apart from both.
    """

    STOPPED = 0
    """Stopped as asked, or a report without errors."""
    USAGE = 64
    """The command line itself cannot be understood."""
    NODE_UNFIT = 69
    """This node cannot run the server: a port is taken, memory or a device is missing."""
    ENGINE_FAILED = 70
    """The engine ended by itself and the restart budget is used up."""
    OUT_OF_MEMORY = 71
    """The engine was killed for memory."""
    DIRECTORY_UNUSABLE = 73
    """A cache or log directory cannot be created or written."""
    RETRY_ELSEWHERE = 75
    """A hang, a lost peer or a lost node: the same job requeued may well succeed."""
    SELF_CHECK_FAILED = 76
    """The server answers, but tool calls or reasoning do not work."""
    NOT_PERMITTED = 77
    """The model or the token does not permit the download."""
    CONFIGURATION = 78
    """The settings cannot work: an unknown key, a wrong value, a missing model."""


class SuperviseError(Exception):
    """A failure that a user can act on.

    Args:
        message: One sentence that says what is wrong and where.
        remedy: One sentence that says what to do about it.
        code: The exit code that the command ends with.
    """

    def __init__(self, message: str, *, remedy: str, code: ExitCode) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}"
