"""The locks of torch's own extension builder, with the CPU engine's torch and gcc."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import wait_for
from parts import debian

from entrypoint.plan.caches import CacheDirectory, CacheLayer
from entrypoint.warm.lock_finding import LockKind, find
from entrypoint.warm.lock_owner import Alive, Vantage
from entrypoint.warm.locks import LockReport, Tenancy, clear

LACKING = debian.missing("extensions")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(LACKING), reason=f"torch extensions: needs the Debian packages {' '.join(LACKING)}"),
]

BUILD_S = 120
BUILD = """\
import sys
from torch.utils.cpp_extension import load
print("answer", load("tiny", [sys.argv[1]], verbose=True).answer(), flush=True)
"""
SOURCE = (
    '#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("answer", [] { return 42; }); }\n'
)
LOOKS = 10
"""So often is a lock looked at again before we believe that it is waited for."""


class Extension:
    """A tiny extension and the processes that build it.

    Args:
        python: The CPU engine's.
        directory: Where everything lies.
        after: Ends what is left.
    """

    def __init__(self, python: Path, directory: Path, after: ExitStack) -> None:
        self._python = python
        self._after = after
        self._cache = directory / "extensions"
        self._output = directory / "output"
        self._source = directory / "tiny.cpp"
        self._source.write_text(SOURCE)
        self.lock = self._cache / "tiny" / "lock"

    def build(self) -> subprocess.Popen[bytes]:
        """Start a process that builds and uses it, in a process group of its own with its compiler."""
        environment = {
            "PATH": f"{self._python.parent}:{os.environ['PATH']}",
            "HOME": str(self._cache),
            "TORCH_EXTENSIONS_DIR": str(self._cache),
            "MAX_JOBS": "1",
        }
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                [str(self._python), "-c", BUILD, str(self._source)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._after.callback(kill, process)
        return process

    def wait_for(self, condition: Callable[[], bool]) -> None:
        wait_for(condition, BUILD_S, self.said)

    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def clear(self, tenancy: Tenancy) -> LockReport:
        cache = CacheDirectory("TORCH_EXTENSIONS_DIR", self._cache, CacheLayer.LOCAL, "", self._cache, "extensions")
        return clear(find([cache], self._cache / "none"), tenancy, Vantage.here(), time.time())


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def extension(prepared_engine: Mapping[str, str], tmp_path: Path) -> Iterator[Extension]:
    with ExitStack() as after:
        yield Extension(Path(prepared_engine["python"]), tmp_path, after)


def compiles(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has a child at work."""
    return bool(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


def sleeps(process: subprocess.Popen[bytes]) -> int:
    """Return how often a process has gone to sleep."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_the_lock_of_a_killed_builder_is_waited_for_until_it_is_cleared_and_then_it_builds(extension: Extension):
    first = extension.build()
    extension.wait_for(lambda: extension.lock.exists() and compiles(first))
    kill(first)
    assert extension.lock.read_bytes() == b""
    second = extension.build()
    extension.wait_for(lambda: "nanosleep" in Path(f"/proc/{second.pid}/wchan").read_text())
    before = sleeps(second)
    extension.wait_for(lambda: sleeps(second) > before + LOOKS)
    assert second.poll() is None
    kill(second)

    report = extension.clear(Tenancy(alone=True, local=True))

    assert [(judged.lock.kind, judged.lock.name) for judged in report.removed] == [
        (LockKind.TORCH_EXTENSION, "tiny/lock")
    ]
    third = extension.build()
    assert third.wait(BUILD_S) == 0, extension.said()
    assert "answer 42" in extension.said()
    assert not extension.lock.exists()


def test_the_lock_of_a_living_builder_is_never_broken(extension: Extension):
    builder = extension.build()
    extension.wait_for(lambda: extension.lock.exists() and compiles(builder))

    report = extension.clear(Tenancy(alone=True, local=True))

    assert report.removed == ()
    (held,) = report.held
    assert (held.owner.pid, held.owner.alive) == (builder.pid, Alive.YES)
    assert builder.wait(BUILD_S) == 0, extension.said()
    assert "answer 42" in extension.said()
