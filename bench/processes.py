"""The processes below this one: which live, when they end, and how they are made to."""

import contextlib
import os
import select
import time
from collections.abc import Iterable

import psutil

from bench.row import NotMeasuredError
from entrypoint.run.warden import PR_SET_CHILD_SUBREAPER, prctl

KILL_S = 10.0
"""Seconds after which a process that SIGKILL did not end is given up."""


def adopt_orphans() -> None:
    """Become the parent of every orphan, so that what anybody leaves behind is seen here."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def living() -> list[psutil.Process]:
    """Return every process below this one that has not ended."""
    return [process for process in psutil.Process().children(recursive=True) if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_ended(pids: Iterable[int], within_s: float) -> bool:
    """Wait until processes have ended, to the moment and without polling; return whether all have."""
    deadline = time.monotonic() + within_s
    with contextlib.ExitStack() as open_fds:
        poller = select.poll()
        waiting = set()
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            open_fds.callback(os.close, fd)
            poller.register(fd, select.POLLIN)
            waiting.add(fd)
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for fd, _ in poller.poll(left_s * 1000):
                poller.unregister(fd)
                waiting.discard(fd)
    return not waiting


def seconds_until_alone(since: float, within_s: float) -> float:
    """Wait until no process lives below this one.

    Args:
        since: When the wait is said to begin, by the monotonic clock.
        within_s: How long it may take.

    Returns:
        Seconds until the last one ended.

    Raises:
        NotMeasuredError: Some live on; names them.
    """
    ended_at = since
    while alive := living():
        left_s = since + within_s - time.monotonic()
        if not wait_ended((process.pid for process in alive), left_s):
            raise NotMeasuredError(f"after {within_s:g} s still there: {_names(living())}")
        ended_at = time.monotonic()
    return ended_at - since


def end_all() -> None:
    """Kill every process below this one, by its id.

    Raises:
        NotMeasuredError: The kernel holds some; names them.
    """
    while alive := living():
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if not wait_ended((process.pid for process in alive), KILL_S):
            raise NotMeasuredError(f"SIGKILL did not end {_names(living())} within {KILL_S:g} s")


def reap_orphans() -> None:
    """Collect the orphans that have ended; everybody else's children must have been waited for."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _names(processes: Iterable[psutil.Process]) -> str:
    names = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.append(f"{process.name()} ({process.pid})")
    return ", ".join(names)
