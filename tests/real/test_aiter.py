"""The real aiter, with Debian's HIP compiler and no GPU: what prewarm and the clearing of locks stand on."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import wait_for
from parts import aiter as part

from entrypoint.plan.caches import CacheDirectory, CacheLayer
from entrypoint.readable import plain
from entrypoint.warm.lock_finding import LockKind, find
from entrypoint.warm.lock_owner import Alive, Vantage
from entrypoint.warm.locks import LockReport, Tenancy, clear

BUILD_S = 120
"""A build takes four seconds, the first of a machine thirteen."""
LOOKS = 5
"""So often is a lock looked at again before we believe that it is waited for."""
REASON = part.reason_against()

pytestmark = [
    pytest.mark.aiter,
    pytest.mark.real,
    pytest.mark.skipif(REASON is not None, reason=f"real aiter: {REASON}"),
]


class Builds:
    """Builds into one directory.

    Args:
        python: The CPU engine's.
        directory: Where modules go.
        after: Ends what is left.
    """

    def __init__(self, python: Path, directory: Path, after: ExitStack) -> None:
        self.directory = directory
        self._python = python
        self._after = after
        self._count = 0
        directory.mkdir()

    def start(self, module: str = part.BUILDABLE, *, aloud: bool = True) -> "Build":
        self._count += 1
        output = self.directory.with_name(f"output-{self._count}")
        with output.open("wb") as file:
            build = Build(part.start_build(self._python, self.directory, module, file, aloud=aloud), output)
        self._after.callback(build.kill)
        return build

    @property
    def outer(self) -> Path:
        return self.directory / "build" / f"lock_{part.BUILDABLE}"

    @property
    def inner(self) -> Path:
        return self.directory / "build" / part.BUILDABLE / "build" / "lock"

    @property
    def module(self) -> Path:
        return self.directory / f"{part.BUILDABLE}.so"

    def clear(self) -> LockReport:
        """Clear the directory as a run does that nobody else is beside."""
        cache = CacheDirectory("AITER_JIT_DIR", self.directory, CacheLayer.LOCAL, "", self.directory, "aiter/jit")
        locks = find([cache], self.directory / "no-tables")
        return clear(locks, Tenancy(alone=True, local=True), Vantage.here(), time.time())


class Build:
    """One process that builds, with its compilers."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    def said(self) -> str:
        return plain(self._output.read_text(errors="replace"))

    def wait(self) -> int:
        return self.process.wait(BUILD_S)

    def kill(self) -> None:
        """Kill it and its compilers, as the end of a job does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def is_asleep(self) -> bool:
        """Return whether it waits for time to pass."""
        return "nanosleep" in Path(f"/proc/{self.process.pid}/wchan").read_text()

    def looks(self) -> int:
        """Return how often it has gone to sleep."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    def wait_until_it_waits(self) -> None:
        """Return when it has looked several times, and slept in between."""
        wait_for(lambda: self.process.poll() is not None or self.is_asleep(), BUILD_S, self.said)
        before = self.looks()
        wait_for(lambda: self.process.poll() is not None or self.looks() >= before + LOOKS, BUILD_S, self.said)
        assert self.process.poll() is None, self.said()


@pytest.fixture(scope="module")
def python(prepared_engine: Mapping[str, str]) -> Path:
    return Path(prepared_engine["python"])


@pytest.fixture
def builds(python: Path, tmp_path: Path) -> Iterator[Builds]:
    with ExitStack() as after:
        yield Builds(python, tmp_path / "jit", after)


def killed_in_the_middle(builds: Builds) -> None:
    """Build, and kill the builder when its compilers are at work."""
    build = builds.start()
    wait_for(builds.inner.exists, BUILD_S, build.said)
    build.kill()


def test_a_module_is_built(builds: Builds):
    build = builds.start()
    assert build.wait() == 0, build.said()
    assert builds.module.read_bytes().startswith(b"\x7fELF")
    assert f"start build [{part.BUILDABLE}] under {builds.directory}/build/{part.BUILDABLE}" in build.said()
    assert f"finish build [{part.BUILDABLE}], cost " in build.said()
    assert f"failed jit build [{part.BUILDABLE}]" not in build.said()
    assert not builds.outer.exists()
    assert not builds.inner.exists()


def test_a_build_that_fails_says_so_and_that_it_has_finished(builds: Builds):
    build = builds.start(part.UNBUILDABLE)
    assert build.wait() != 0
    said = build.said()
    assert "fatal error" in said
    assert f"failed jit build [{part.UNBUILDABLE}]" in said
    assert f"finish build [{part.UNBUILDABLE}], cost " in said
    assert "failed !!!!!!" in said
    assert not (builds.directory / f"{part.UNBUILDABLE}.so").exists()
    assert list((builds.directory / "build").glob("lock_*")) == []


def test_a_second_process_waits_in_silence_for_the_first_one(builds: Builds):
    first = builds.start()
    wait_for(builds.outer.exists, BUILD_S, first.said)
    second = builds.start(aloud=False)
    assert first.wait() == 0, first.said()
    assert second.wait() == 0, second.said()
    assert first.said().count("start build") == 1
    assert "[aiter]" not in second.said()
    assert builds.module.exists()


def test_the_lock_of_a_builder_that_was_killed_is_waited_for_until_it_is_cleared(builds: Builds):
    killed_in_the_middle(builds)
    assert builds.outer.read_bytes() == builds.inner.read_bytes() == b""
    assert not builds.module.exists()
    waiting = builds.start()
    waiting.wait_until_it_waits()
    assert f"waiting for baton release at {builds.outer}" in waiting.said()

    report = builds.clear()

    assert [(judged.lock.kind, judged.owner.pid) for judged in report.removed] == [
        (LockKind.MODULE, None),
        (LockKind.MODULE_BUILD, None),
    ]
    assert report.held == ()
    assert waiting.wait() == 0
    # Whoever waited takes it for built, so that locks are cleared before anybody waits.
    assert not builds.module.exists()
    again = builds.start()
    assert again.wait() == 0, again.said()
    assert builds.module.exists()


def test_the_inner_lock_alone_is_waited_for_as_well(builds: Builds):
    killed_in_the_middle(builds)
    builds.outer.unlink()
    waiting = builds.start()
    wait_for(lambda: "waiting for baton release" in waiting.said(), BUILD_S, waiting.said)
    assert f"waiting for baton release at {builds.inner}" in waiting.said()


def test_after_a_builder_was_killed_clearing_lets_the_next_one_build(builds: Builds):
    killed_in_the_middle(builds)
    assert len(builds.clear().removed) == 2
    build = builds.start()
    assert build.wait() == 0, build.said()
    assert "waiting for baton" not in build.said()
    assert builds.module.exists()


def test_the_locks_of_a_living_builder_are_never_broken(builds: Builds):
    build = builds.start()
    wait_for(builds.inner.exists, BUILD_S, build.said)

    report = builds.clear()

    assert report.removed == ()
    assert [(judged.owner.pid, judged.owner.alive) for judged in report.held] == [(build.process.pid, Alive.YES)] * 2
    assert f"pid {build.process.pid} on " in report.held[0].sentence
    assert f" has held build/lock_{part.BUILDABLE} for " in report.held[0].sentence
    assert build.wait() == 0, build.said()
    assert builds.module.exists()
