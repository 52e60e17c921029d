"""A whole run with the stand-in engine, seen from outside."""

import signal
from collections.abc import Callable

import pytest
from harness import Supervised

pytestmark = pytest.mark.process
Start = Callable[..., Supervised]


def test_a_run_goes_from_checking_to_ready_and_stops_as_asked(start_fake: Start):
    with start_fake() as run:
        run.wait_state("ready")
        run.signal(signal.SIGTERM)
        assert run.wait() == 0
        assert run.states() == [
            *("checking", "warming", "waiting", "starting", "loading", "capturing", "engine-up", "proving", "ready"),
            *("draining", "stopping", "stopped"),
        ]
        run.assert_nothing_left()
