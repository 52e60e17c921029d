"""Every exit code and every signal that ends a process: each is told as what it was, and nothing is left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_control import MODULE, SITE
from harness import Supervised
from stage import Stage, lay_out_model, playing

pytestmark = pytest.mark.process

DRIVER = Path(__file__).with_name("exit_driver.py")
DRIVERS = 4
"""Processes that play the runs: a run mostly waits."""
PATIENCE_S = 280
STAY_ALIVE = frozenset({"SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGWINCH"})
"""Signals whose default is to stop a process, to let it go on, or to do nothing (signal(7))."""
LIBRARYS_OWN = frozenset({32, 33})
"""Signals that the C library keeps to itself: what they do to a process is its business (nptl(7))."""
LAST_SIGNAL = 64
CRASHES = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS"})
ENGINE = """#!/bin/sh
[ "$2" = {module} ] || exec {python} "$@"
echo "[2026-12-01 12:00:00] This engine only ends: $HOW_IT_ENDS"
case $HOW_IT_ENDS in
exit-*) exit "${{HOW_IT_ENDS#exit-}}" ;;
signal-*) exec {python} -I -S -c '
import os, signal
number = int(os.environ["HOW_IT_ENDS"].removeprefix("signal-"))
if number in signal.Signals._value2member_map_ and number != signal.SIGKILL:
    signal.signal(number, signal.SIG_DFL)
os.kill(os.getpid(), number)
' ;;
esac
"""
"""Stands where the engine's Python does. A shell could not undo that some signals are ignored, as engines do."""


def name_of(number: int) -> str:
    """Name a signal as people do, or by its number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


CODES = {f"exit-{code}": f"exit code {code}" for code in range(256)}
SIGNALS = {
    f"signal-{number}": f"signal {name_of(number)}"
    for number in range(1, LAST_SIGNAL + 1)
    if name_of(number) not in STAY_ALIVE and number not in LIBRARYS_OWN
}
WAYS = CODES | SIGNALS


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, free_ports: Iterator[int]) -> Mapping[str, Mapping[str, Any]]:
    """The outcome of a run for each way to end: ``code``, ``left`` and ``report``."""
    directory = tmp_path_factory.mktemp("exits")
    python = directory / "bin" / "python"
    python.parent.mkdir()
    python.write_text(ENGINE.format(module=MODULE, python=sys.executable))
    python.chmod(0o755)
    model = lay_out_model(directory / "model")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "PYTHONPATH": os.pathsep.join((str(SITE), str(DRIVER.parent.parent))),
        "SUPERVISE_LOGS__FORMAT": "json",
    }
    ways = list(WAYS)
    with ExitStack() as drivers:
        for part in range(DRIVERS):
            output = drivers.enter_context((directory / f"driver-{part}").open("wb"))
            words = (directory, model, python, next(free_ports), *ways[part::DRIVERS])
            driver = subprocess.Popen(
                [sys.executable, DRIVER, *map(str, words)],
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            drivers.callback(driver.wait, PATIENCE_S)
    return {way: outcome(directory / way) for way in ways}


def outcome(place: Path) -> Mapping[str, Any]:
    (report,) = place.glob("logs/*/report-0.json")
    return {**json.loads((place / "outcome.json").read_text()), "report": json.loads(report.read_text())}


def test_the_ways_to_end_are_all_of_them():
    assert len(CODES) == 256
    assert {"signal SIGKILL", "signal SIGHUP", "signal SIGRTMAX"} <= set(SIGNALS.values())
    assert len(SIGNALS) == LAST_SIGNAL - len(STAY_ALIVE) - len(LIBRARYS_OWN)


@pytest.mark.parametrize("way", WAYS)
def test_an_engine_that_ends_at_once_is_told_with_its_exact_status(reports: Mapping[str, Mapping[str, Any]], way: str):
    found, report = reports[way], reports[way]["report"]
    assert "ended by itself while starting" in report["summary"]
    assert f", with {WAYS[way]}." in report["summary"]
    assert found["code"] == report["code"] == 70
    crashed = WAYS[way].removeprefix("signal ") in CRASHES
    assert (report["cause"], report["confidence"]) == (("engine", "probable") if crashed else ("unknown", "unknown"))
    assert found["left"] == []


# While serving

SENT = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGQUIT", "SIGALRM", "SIGXCPU", "SIGRTMAX")
STOPPED_WITH = (0, 1, 9, 137, 255)
"""Exit codes of an engine that somebody else asks to end."""
SERVED = {sent: f"signal {sent}" for sent in SENT} | {f"{code}": f"exit code {code}" for code in STOPPED_WITH}
Played = Mapping[str, Future[Supervised]]


def end_while_serving(stage: Stage, way: str) -> Supervised:
    asked = way.isdigit()
    with stage.make("--restart.max", "0", stop_status=int(way) if asked else 0) as run:
        run.wait_state("ready")
        run.main.send_signal(signal.SIGTERM if asked else signal.Signals[way])
        assert run.wait() == 70
        run.assert_nothing_left()
    return run


@pytest.fixture(scope="module")
def served(stage: Stage) -> Iterator[Played]:
    with playing({way: partial(end_while_serving, stage, way) for way in SERVED}) as runs:
        yield runs


@pytest.mark.parametrize("way", SERVED)
def test_an_engine_that_ends_while_serving_is_told_with_its_exact_status(served: Played, way: str):
    report = served[way].result().report()
    assert "ended by itself while serving" in report["summary"]
    assert f", with {SERVED[way]}." in report["summary"]
    crashed = way in CRASHES
    assert (report["cause"], report["confidence"]) == (("engine", "probable") if crashed else ("unknown", "unknown"))
