"""Phases: told in order as they come, and each given up when it is over its time and nothing moves."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial

import pytest
from harness import Supervised
from stage import Stage, playing

pytestmark = pytest.mark.process
Played = Mapping[str, Future[Supervised]]
StartFake = Callable[..., Supervised]
IMPATIENT = (
    *("--deadlines.start_s", "1", "--deadlines.load_s", "0.5", "--deadlines.capture_s", "0.5"),
    *("--deadlines.engine_up_s", "0.5", "--deadlines.stall_s", "1"),
)
SPIN_S = 6.0
"""A look has to find a second of processor time, of which a busy machine gives a process less than its share."""
READY_S = 14.0
"""More than twice the time to stall: the first look at what the processes do only begins to compare."""
COMING_UP = ("starting", "loading", "capturing", "engine-up")
HANGS = {
    "start": ("starting", "deadlines.start_s"),
    "load": ("loading", "deadlines.load_s"),
    "capture": ("capturing", "deadlines.capture_s"),
    "warmup": ("engine-up", "deadlines.engine_up_s"),
}


def hang(stage: Stage, phase: str) -> Supervised:
    with stage.make(*IMPATIENT, hangs_at=phase, children_stay=True) as run:
        assert run.wait() == 75
        run.assert_nothing_left()
    return run


def spin(stage: Stage) -> Supervised:
    arguments = ("--deadlines.stall_s", str(SPIN_S), "--deadlines.ready_s", str(READY_S))
    with stage.make(*IMPATIENT, *arguments, spins_at="load") as run:
        assert run.wait() == 75
        run.assert_nothing_left()
    return run


def never_be_ready(stage: Stage) -> Supervised:
    with stage.make(*IMPATIENT, ready_status=503) as run:
        assert run.wait() == 75
    return run


def creep(stage: Stage) -> Supervised:
    """Load and capture for several times as long as deadline and stall allow without progress."""
    with stage.make(*IMPATIENT, load_s=4, shards=20, capture_s=1) as run:
        run.wait_state("ready")
    return run


def capture_nothing(stage: Stage) -> Supervised:
    with stage.make(capture_s=0) as run:
        run.wait_state("ready")
    return run


@pytest.fixture(scope="module")
def played(stage: Stage) -> Iterator[Played]:
    hangs = {phase: partial(hang, stage, phase) for phase in HANGS}
    others = {story.__name__: partial(story, stage) for story in (creep, spin, never_be_ready, capture_nothing)}
    with playing(others | hangs) as runs:
        yield runs


@pytest.mark.parametrize("phase", HANGS)
def test_a_hang_is_given_up_and_told_with_phase_and_setting(played: Played, phase: str):
    report = played[phase].result().report()
    state, setting = HANGS[phase]
    assert report["phase"] == state
    assert f"stalled while {state}" in report["summary"]
    assert f"raise {setting}" in report["remedy"]


def test_the_last_progress_before_a_hang_is_told(played: Played):
    assert "shards loaded" in played["load"].result().report()["summary"]


def test_an_engine_that_computes_for_ever_is_ended_by_the_time_to_be_ready(played: Played):
    report = played["spin"].result().report()
    assert report["phase"] == "loading"
    coming_up_s = sum(phase["lasted_s"] for phase in report["status"]["phases"] if phase["name"] in COMING_UP)
    assert coming_up_s >= READY_S
    assert "raise deadlines.ready_s" in report["remedy"]


def test_an_engine_that_never_says_ready_stalls_with_its_port_open(played: Played):
    report = played["never_be_ready"].result().report()
    assert report["phase"] == "engine-up"
    assert "raise deadlines.engine_up_s" in report["remedy"]


def test_a_slow_phase_that_moves_is_not_given_up(played: Played):
    events = played["creep"].result().events()
    lasted_s = {event["before"]: event["before_lasted_s"] for event in events if event["event"] == "state"}
    assert lasted_s["loading"] > 3.5


def test_states_come_in_order_with_capture(played: Played):
    assert until_ready(played["creep"].result()) == ["starting", "loading", "capturing", "engine-up", "proving"]


def test_states_come_in_order_without_capture(played: Played):
    assert until_ready(played["capture_nothing"].result()) == ["starting", "loading", "engine-up", "proving"]


STRANGER = """
import http.server, sys

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""


def test_a_stranger_who_takes_the_port_after_the_check_and_says_ready_is_not_proven(start_fake: StartFake):
    with start_fake(hangs_at="load") as run:
        run.wait_state("loading")
        with subprocess.Popen([sys.executable, "-c", STRANGER, str(run.engine_port)]) as stranger:
            try:
                assert run.wait() == 69, run.stderr()
            finally:
                stranger.kill()
        report = run.report()
        assert (report["cause"], report["phase"]) == ("port", "loading")
        assert f"is taken by process {stranger.pid}" in report["summary"]
        assert "proving" not in run.states()
        run.assert_nothing_left()


def until_ready(run: Supervised) -> list[str]:
    states = run.states()
    return states[states.index("starting") : states.index("ready")]


def test_progress_is_an_event(played: Played):
    progress = [event for event in played["creep"].result().events() if event["event"] == "progress"]
    assert progress
    assert progress[0]["state"] == "loading"
    assert "shards loaded" in progress[0]["progress"]
