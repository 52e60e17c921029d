"""Whatever is killed, no process of the engine is left; and what only passes by ends nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engine_lives import kill_all, processes_of
from harness import is_running, wait_for

ROOT = Path(__file__).parents[3]
DRIVER = Path(__file__).with_name("warden_driver.py")
ENGINE = """
setsid sleep 1000 &
(setsid sleep 1000 &)
sh -c 'trap "" TERM HUP; sleep 1000; sleep 1000' &
echo ready >&2
while :; do sleep 1000; done
"""
SIZE = 6
"""The shell, its three helpers, and what two of them wait for."""
WITHIN_S = 20


class Driver:
    """A supervisor in a process of its own, with an engine."""

    def __init__(self, mark: str, *words: str) -> None:
        self._mark = mark
        self.process = subprocess.Popen(
            [*words[1:], sys.executable, str(DRIVER), mark, words[0], "sh", "-c", ENGINE],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.warden = int(self.line().split()[1])
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == "ready\n"
        wait_for(lambda: len(self.engine()) >= SIZE, WITHIN_S, f"{SIZE} processes of the engine")

    def line(self) -> str:
        """Return the next line of what the supervisor was told."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def engine(self) -> set[int]:
        """Return the engine's processes."""
        return {pid for pid in processes_of(self._mark) if is_running(pid)} - {self.warden}

    def assert_nothing_left(self) -> None:
        wait_for(lambda: not self.engine(), WITHIN_S, "no process of the engine is left")
        wait_for(lambda: not is_running(self.warden), WITHIN_S, "the warden has ended")

    def signal_everything_below(self, number: int) -> None:
        for pid in {*self.engine(), self.warden}:
            os.kill(pid, number)

    def end(self) -> None:
        self.process.kill()
        kill_all(self._mark)
        self.process.communicate(timeout=WITHIN_S)


@pytest.fixture
def drive(mark: str) -> Iterator[Callable[..., Driver]]:
    """Return a function that starts a supervisor: 'listening' or 'deaf', and a command that starts it."""
    drivers: list[Driver] = []

    def start(ears: str = "listening", *prefix: str) -> Driver:
        drivers.append(Driver(mark, ears, *prefix))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.end()


def test_the_end_of_the_supervisor_is_the_end_of_the_engine(drive: Callable[..., Driver]):
    driver = drive()
    driver.process.kill()
    driver.assert_nothing_left()


def test_so_it_is_when_the_supervisor_never_read_what_its_warden_said(drive: Callable[..., Driver]):
    driver = drive("deaf")
    driver.process.kill()
    driver.assert_nothing_left()


def test_so_it_is_when_the_engine_was_frozen(drive: Callable[..., Driver]):
    driver = drive()
    for pid in driver.engine():
        os.kill(pid, signal.SIGSTOP)
    driver.process.kill()
    driver.assert_nothing_left()


def test_a_supervisor_that_stands_still_for_a_while_kills_nothing(drive: Callable[..., Driver]):
    driver = drive()
    driver.process.send_signal(signal.SIGSTOP)
    before = driver.engine()
    driver.signal_everything_below(signal.SIGCONT)
    assert driver.engine() == before
    driver.process.send_signal(signal.SIGCONT)
    driver.process.send_signal(signal.SIGUSR1)
    assert [driver.line().split()[0], driver.line()] == ["started", "exited signal SIGKILL"]


def test_the_end_of_the_warden_is_the_end_of_the_engine_and_the_supervisor_is_told(drive: Callable[..., Driver]):
    driver = drive()
    os.kill(driver.warden, signal.SIGKILL)
    assert driver.line().split()[0] == "started"
    assert driver.line() == "exited None"
    assert driver.line() == "gone"
    assert driver.engine() == set()
    assert driver.line() == "left () ()"
    assert driver.process.wait(WITHIN_S) == 0


def test_when_warden_and_supervisor_are_killed_the_main_process_ends_all_the_same(drive: Callable[..., Driver]):
    driver = drive()
    main = int(driver.line().split()[1])
    driver.process.send_signal(signal.SIGSTOP)
    os.kill(driver.warden, signal.SIGKILL)
    driver.process.kill()
    wait_for(lambda: not is_running(main), WITHIN_S, "the engine's main process has ended")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT]
)
def test_a_signal_to_every_process_of_the_engine_ends_none_that_does_not_want_to_end(
    drive: Callable[..., Driver], number: signal.Signals
):
    driver = drive()
    before = driver.engine()
    driver.signal_everything_below(number)
    driver.signal_everything_below(number)
    assert driver.engine() == before
    driver.process.send_signal(signal.SIGUSR1)
    assert driver.line().split()[0] == "started"
    assert driver.line() == "exited signal SIGKILL"
    assert driver.line() == "gone"
    assert driver.line() == "left () ()"


def test_a_signal_that_does_end_an_engine_is_told_as_its_end(drive: Callable[..., Driver]):
    driver = drive()
    os.kill(int(driver.line().split()[1]), signal.SIGQUIT)
    assert driver.line() == "exited signal SIGQUIT"
    assert driver.line() == "gone"
    assert driver.engine() == set()


def test_a_score_that_the_scheduler_set_higher_is_left_as_it_is(drive: Callable[..., Driver]):
    driver = drive("listening", "sh", "-c", 'echo 700 >/proc/self/oom_score_adj; exec "$@"', "sh")
    main = int(driver.line().split()[1])
    assert Path(f"/proc/{main}/oom_score_adj").read_text() == "700\n"
