"""The standard streams, made such that printing cannot fail for what they were when the process started."""

import io
import os
import sys
from contextlib import suppress
from typing import TextIO

_DESCRIPTORS = (0, 1, 2)


def prepare() -> None:
    """Open what is closed, and print in UTF-8 whatever the locale.

    A closed descriptor would be given to the next file or socket that is opened, which then got our output. The bytes
    of arguments that are no text go to stdout as they came, so that what is printed can be used.
    """
    for descriptor in _DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # stays open to the end
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # as above
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # as above
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def complain(text: str) -> None:
    """Write to stderr; where nobody can read it, the exit code has to do."""
    with suppress(OSError):
        sys.stderr.write(text)
    settle(sys.stderr)


def settle(stream: TextIO) -> None:
    """Write what a stream holds, or let it go."""
    try:
        stream.flush()
    except OSError:
        drop(stream)


def drop(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere: Python would complain about it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
