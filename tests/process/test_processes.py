"""Whatever the end: no process of the engine is left, and no zombie stays while it lasts."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import psutil
import pytest
from harness import SUPERVISE, Supervised, wait_for
from stage import Stage, playing

pytestmark = pytest.mark.process
Played = Mapping[str, Future[Supervised]]
CLINGING = {"children_stay": True, "orphan": True}
"""An engine whose helpers are deaf to everything but SIGKILL, and one of whose processes left its session."""
FAULTY = """
import entrypoint.run.supervisor as supervisor
def fault(*_):
    raise RuntimeError("a fault of the supervisor")
supervisor.wait_until_idle = fault
from entrypoint.cli import main
raise SystemExit(main())
"""
"""The supervisor, with a fault that shows when it begins to drain."""


def stopped(run: Supervised) -> None:
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def supervisor_killed(run: Supervised) -> None:
    run.signal(signal.SIGKILL)
    run.wait()


def warden_killed(run: Supervised) -> None:
    run.named("engine-warden").kill()
    assert run.wait() == 70
    assert "a signal to its warden" in run.report()["summary"]


def engine_killed(run: Supervised) -> None:
    run.main.kill()
    assert run.wait() == 70
    assert "signal SIGKILL" in run.report()["summary"]


def faulted(run: Supervised) -> None:
    run.signal(signal.SIGTERM)
    assert run.wait() == 70
    assert "RuntimeError: a fault of the supervisor" in run.report()["summary"]


ENDINGS: Mapping[str, Callable[[Supervised], None]] = {
    "stopped as asked": stopped,
    "supervisor killed": supervisor_killed,
    "warden killed": warden_killed,
    "engine killed": engine_killed,
    "supervisor at fault": faulted,
}


def end(stage: Stage, name: str) -> Supervised:
    run = stage.make("--restart.max", "0", **CLINGING)
    if name == "supervisor at fault":
        run.command = (sys.executable, "-c", FAULTY)
    with run:
        run.wait_state("ready")
        named = run.engine.processes()
        assert {"sglang::schedul", "sglang::detoken", "sglang::orphan"} <= named.keys()
        ENDINGS[name](run)
        run.assert_nothing_left()
    return run


def leaving_orphans(directory: Path) -> Path:
    """Make an interpreter for the engine that leaves a child behind at each start, as helpers of libraries do."""
    directory.mkdir()
    script = directory / "python"
    script.write_text(f'#!/bin/sh\nsleep 0.3 &\nsetsid sleep 600 &\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


def assert_reaps(supervisor: psutil.Process) -> None:
    """The supervisor has no child in the end but the warden and the orphan that goes on."""

    def children() -> set[str]:
        return {"zombie" if child.status() == "zombie" else child.name() for child in supervisor.children()}

    wait_for(lambda: children() == {"engine-warden", "sleep"}, 10, "zombies reaped")


def reap(stage: Stage) -> Supervised:
    with stage.make("--engine.python", str(leaving_orphans(stage.directory / "reaping"))) as run:
        run.wait_state("ready")
        assert_reaps(psutil.Process(run.process.pid))
        assert len([pid for pid in run.tree() if psutil.Process(pid).name() == "sleep"]) >= 2
        run.signal(signal.SIGTERM)
        assert run.wait() == 0
        run.assert_nothing_left()
    return run


def be_pid_1(stage: Stage) -> Supervised:
    run = stage.make("--engine.python", str(leaving_orphans(stage.directory / "pid-1")), **CLINGING)
    run.command = ("unshare", "--pid", "--fork", "--mount-proc", *SUPERVISE)
    with run:
        run.wait_state("ready")
        (pid_1,) = psutil.Process(run.process.pid).children()
        assert f"NSpid:\t{pid_1.pid}\t1\n" in Path(f"/proc/{pid_1.pid}/status").read_text()
        assert_reaps(pid_1)
        pid_1.send_signal(signal.SIGTERM)
        assert run.wait() == 0
        assert run.states()[-1] == "stopped"
        run.assert_nothing_left()
    return run


def have_a_neighbour(stage: Stage) -> Supervised:
    """Become the supervisor in a script that has started something of its own, and lose the warden."""
    run = stage.make("--restart.max", "0")
    run.command = ("sh", "-c", 'sleep 600 & exec "$@"', "sh", *SUPERVISE)
    with run:
        run.wait_state("ready")
        neighbour = run.named("sleep")
        run.named("engine-warden").kill()
        assert run.wait() == 70
        assert not run.engine.processes()
        assert neighbour.is_running()
        neighbour.kill()
    return run


def look_at_groups(stage: Stage) -> Supervised:
    with stage.make() as run:
        run.wait_state("loading")
        engine, warden = run.main.pid, run.named("engine-warden").pid
        assert os.getpgid(engine) == engine
        assert len({os.getsid(process) for process in (run.process.pid, warden)}) == 2
    return run


@pytest.fixture(scope="module")
def played(stage: Stage) -> Iterator[Played]:
    others = [reap, have_a_neighbour, look_at_groups, *([be_pid_1] if os.geteuid() == 0 else [])]
    stories = {story.__name__: partial(story, stage) for story in others}
    with playing({name: partial(end, stage, name) for name in ENDINGS} | stories) as runs:
        yield runs


@pytest.mark.parametrize("name", ENDINGS)
def test_no_process_of_the_engine_is_left(played: Played, name: str):
    played[name].result()


def test_orphans_are_reaped_and_none_stays_behind(played: Played):
    played["reap"].result()


@pytest.mark.skipif(os.geteuid() != 0, reason="a process namespace wants root")
def test_as_pid_1_it_reaps_and_stops_as_elsewhere(played: Played):
    played["be_pid_1"].result()


def test_the_engine_has_a_process_group_of_its_own(played: Played):
    played["look_at_groups"].result()


def test_children_from_before_are_left_alone(played: Played):
    played["have_a_neighbour"].result()
