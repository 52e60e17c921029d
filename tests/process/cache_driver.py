"""Copies between trees of caches in processes of its own, and kills them at every step.

``python cache_driver.py every-step publish|begin DIRECTORY`` lets a child copy ``DIRECTORY/source``, killed before its
n-th change of the disk, for every n until one lives to the end; after each it looks at what is there, lets another copy
complete it, and looks again. It tells how many steps there were.

``python cache_driver.py publish|begin|seed SOURCE TARGET [N]`` copies once, when told to by a line on stdin, and tells
what its report says as JSON; with a number it kills itself at the n-th sign of progress.
"""

import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cache_trees import assert_nothing_torn, caches, files, lay_out

from entrypoint.warm.copy_report import CopyReport
from entrypoint.warm.layers import MARKER, begin_shared, publish, seed
from entrypoint.warm.transfer import Manner

CHANGES = (
    *("open", "write", "copy_file_range", "fchmod", "chmod", "utime", "symlink"),
    *("link", "rename", "mkdir", "unlink", "rmdir"),
)
"""Every call that changes something on a disk: between two of them it does not matter where a process dies."""


def copy(
    how: str, source: Path, target: Path, workers: int, on_progress: Callable[[int, int], None] = lambda *_: None
) -> CopyReport:
    manner = Manner(time.time(), 1.0, workers, on_progress)
    if how == "begin":
        places = {cache.place: source / cache.place for cache in caches(source) if cache.entries}
        return begin_shared(caches(target), places, target, manner)
    return {"publish": publish, "seed": seed}[how](caches(target), source, target, manner)


def die_at(step: int) -> None:
    """Let this process be killed right before its n-th change."""
    left = [step]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **named: Any) -> Any:
            left[0] -= call is not real_open or bool(arguments[1] & os.O_CREAT)
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return count

    real_open = os.open
    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))
    # Matters to machines that lose power, not to processes that die; and takes the time of the test.
    os.fsync = lambda _: None


def is_killed_at(step: int, how: str, source: Path, target: Path) -> bool:
    """Copy in a child that is killed at a step; return whether it got so far."""
    pid = os.fork()
    if not pid:
        die_at(step)
        copy(how, source, target, 1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), status
    return bool(status)


def every_step(how: str, directory: Path) -> int:
    """Return at how many steps a copy was killed; each time nothing was torn, and the next one completed it."""
    source = directory / "source"
    made = lay_out(source)
    whole = files(source)
    step = 0
    killed = True
    while killed:
        step += 1
        target = directory / "root" / str(step) / "family"
        killed = is_killed_at(step, how, source, target)
        there = assert_nothing_torn(target, [source], made)
        if how == "begin":
            assert there in (0, len(made)), f"half of a tree is visible after step {step}"
            assert (target / MARKER).exists() is bool(there), step
        report = copy(how, source, target, 1)
        assert report.is_complete, report
        assert report.copied == len(made) - there, step
        assert files(target) == whole, step
        assert not (target / ".staging").exists(), step
        assert [path.name for path in target.parent.iterdir()] == ["family"], step
        shutil.rmtree(target.parent)
    return step - 1


def once(how: str, source: Path, target: Path, last: int | None) -> None:
    signs = itertools.count(1)

    def progress(_done: int, _total: int) -> None:
        if next(signs) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    tell("ready")
    sys.stdin.readline()
    report = copy(how, source, target, 2, progress)
    told = {
        "copied": report.copied,
        "complete": report.is_complete,
        "read_only": report.is_read_only,
        "stopped": report.stopped and report.stopped.reason,
        "failures": [failure.reason for failure in report.failures],
    }
    tell(json.dumps(told))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> None:
    match words:
        case ["every-step", how, directory]:
            tell(str(every_step(how, Path(directory))))
        case [how, source, target, *last]:
            once(how, Path(source), Path(target), int(last[0]) if last else None)


if __name__ == "__main__":
    main(sys.argv[1:])
