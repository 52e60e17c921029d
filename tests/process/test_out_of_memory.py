"""The kernel's out-of-memory killer takes a process of the engine: the run says so, and never without proof."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial

import pytest
from harness import SUPERVISE, Supervised
from parts.death import OUT_OF_MEMORY, assert_told_as_out_of_memory
from parts.memory_group import MemoryGroup, memory_group, reason_against
from stage import Stage, playing

pytestmark = pytest.mark.process
LIMIT_MIB = 256
LIMIT = "256 MiB"
EATERS = {
    "the main process while it loads": {"eats_at": "load", "hangs_at": "load"},
    "the main process while it serves": {"eats_at": "ready"},
    "the scheduler while graphs are captured": {"eats_at": "capture", "hangs_at": "capture", "eats_who": "scheduler"},
    "the scheduler while it serves": {"eats_at": "ready", "eats_who": "scheduler"},
    "the detokenizer while it serves": {"eats_at": "ready", "eats_who": "detokenizer"},
}
Played = Mapping[str, Future[tuple[Supervised, MemoryGroup]]]


def eat(stage: Stage, name: str) -> tuple[Supervised, MemoryGroup]:
    """Have a process of the engine take memory until the kernel kills it."""
    with memory_group(LIMIT_MIB << 20) as group:
        run = stage.make("--restart.max", "9", **EATERS[name])
        run.command = group.entering(*SUPERVISE)
        with run:
            assert run.wait(60) == OUT_OF_MEMORY
            run.assert_nothing_left()
        assert group.oom_kills == 1
    return run, group


def run_out_elsewhere() -> None:
    """Have the kernel kill a process that has nothing to do with any engine."""
    with memory_group(32 << 20) as group:
        grow = [sys.executable, "-c", "grown = []\nwhile True: grown.append(b'x' * (1 << 20))"]
        assert subprocess.run(group.entering(*grow), check=False).returncode == -signal.SIGKILL
        assert group.oom_kills == 1


def kill(stage: Stage) -> tuple[Supervised, MemoryGroup]:
    """Kill an engine that has a limit and takes little, on a node where somebody else has run out of memory."""
    with memory_group(LIMIT_MIB << 20) as group:
        run = stage.make("--restart.max", "0")
        run.command = group.entering(*SUPERVISE)
        with run:
            run.wait_state("ready")
            run_out_elsewhere()
            run.main.send_signal(signal.SIGKILL)
            assert run.wait() == 70
            run.assert_nothing_left()
        assert group.oom_kills == 0
    return run, group


@pytest.fixture(scope="module")
def played(stage: Stage) -> Iterator[Played]:
    if reason := reason_against():
        pytest.skip(reason)
    deaths = {name: partial(eat, stage, name) for name in EATERS}
    with playing({**deaths, "a kill": partial(kill, stage)}) as runs:
        yield runs


@pytest.mark.parametrize("name", EATERS)
def test_whichever_process_takes_the_memory_the_kernels_kill_is_told_with_group_and_limit(played: Played, name: str):
    run, group = played[name].result()
    assert_told_as_out_of_memory(run.report(), group=group.path, limit=LIMIT)


@pytest.mark.parametrize("name", EATERS)
def test_an_engine_that_ran_out_of_memory_is_not_started_again_with_the_same_settings(played: Played, name: str):
    run, _ = played[name].result()
    assert run.states().count("starting") == 1


def test_the_same_signal_from_somebody_else_is_not_called_out_of_memory_whoever_else_runs_out(played: Played):
    run, _ = played["a kill"].result()
    report = run.report()
    assert report["cause"] != "memory"
    assert "out-of-memory killer" not in report["summary"]
