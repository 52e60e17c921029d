"""Orphans: processes whose parents died and that this process, as subreaper or PID 1, inherits and must reap.

A child that some other code here waits for is *owned*. One that was there before is *inherited*: whoever became the
supervisor by exec may have started it. Everything else that becomes a child of ours is an orphan.
"""

import os
import signal
from pathlib import Path

from entrypoint.run.warden import PR_SET_CHILD_SUBREAPER, descendants, prctl

_owned: set[int] = set()
_inherited: set[int] = set()
"""Children from before: reaped like orphans, and never killed."""


def adopt() -> None:
    """Become the parent of every orphan below this process, as PID 1 is by nature."""
    _inherited.update(_children())
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def own(pid: int) -> None:
    """Leave this child to the code that waits for it."""
    _owned.add(pid)


def disown(pid: int) -> None:
    """Forget a child that has been waited for."""
    _owned.discard(pid)


def _children() -> list[int]:
    """Return the ids of this process's direct children, zombies included."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += [int(text) for text in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):  # the thread ended while we looked
            continue
    return found


def reap() -> tuple[int, ...]:
    """Collect the orphans that have ended; return their process ids."""
    reaped = []
    for pid in _children():
        if pid in _owned:
            continue
        try:
            done, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if done:
            _inherited.discard(pid)
            reaped.append(pid)
    return tuple(reaped)


def slay() -> tuple[int, ...]:
    """Kill every orphan and everything below it; return the process ids that were killed."""
    killed: list[int] = []
    mine = _owned | _inherited
    spared = mine | {below for pid in mine for below in descendants(pid)}
    for pid in descendants(os.getpid()):
        if pid in spared:
            continue
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed.append(pid)
    reap()
    return tuple(killed)
