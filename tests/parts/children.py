"""Processes that end when this one does, however that ends."""

import subprocess
from collections.abc import Iterable
from typing import IO

PATIENCE_S = 60


def start_child(
    *words: str, stdin: int = subprocess.DEVNULL, stdout: int | IO[bytes] = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a command that gets SIGTERM when the thread that calls this ends; errors go where the output goes."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", *words], stdin=stdin, stdout=stdout, stderr=subprocess.STDOUT
    )


def await_end(children: Iterable[subprocess.Popen[bytes]]) -> None:
    """Wait for processes that were asked to end, and kill those that do not."""
    for child in children:
        try:
            child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
