"""How a process ended, as the kernel tells it."""

import os
import signal
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended.

    Attributes:
        code: Its exit code, or None when a signal ended it.
        signal: The number of the signal that ended it, or None.
    """

    code: int | None
    signal: int | None

    @classmethod
    def from_wait_status(cls, status: int) -> "ExitStatus":
        """Read a status as waitpid(2) gives it."""
        return cls.from_return_code(os.waitstatus_to_exitcode(status))

    @classmethod
    def from_return_code(cls, code: int) -> "ExitStatus":
        """Read a code as Python's multiprocessing and subprocess give it: negative for a signal."""
        return cls(code, None) if code >= 0 else cls(None, -code)

    @classmethod
    def parse(cls, text: str) -> "ExitStatus | None":
        """Read the words that this class itself prints; None for others."""
        word, _, value = text.rpartition(" ")
        if word == "exit code" and value.isdigit():
            return cls(int(value), None)
        if word != "signal":
            return None
        number = signal.Signals.__members__.get(value)
        return cls(None, int(number)) if number else cls(None, int(value)) if value.isdigit() else None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return f"signal {signal.Signals(self.signal).name}"
        except ValueError:
            return f"signal {self.signal}"
