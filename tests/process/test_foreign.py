"""A foreign command: supervise becomes it."""

import json
import signal
from collections.abc import Callable

import psutil
import pytest
from harness import Supervised, wait_for

pytestmark = pytest.mark.process
Start = Callable[..., Supervised]


def test_its_exit_code_and_environment_pass_through(start_fake: Start):
    with start_fake("sh", "-c", "env; exit 3", environment={"OF_THE_CALLER": "kept"}) as run:
        assert run.wait() == 3
        environment = run.stdout().splitlines()
        assert "OF_THE_CALLER=kept" in environment
        assert "SGLANG_USE_CPU_ENGINE=1" in environment


def test_its_own_name_as_the_command_is_no_foreign_command(start_fake: Start):
    with start_fake("supervise", "supervise", "--dry-run", "--format", "json") as run:
        assert run.wait() == 0
        assert "sglang.launch_server" in json.loads(run.stdout())["argv"]
        assert not (run.directory / "logs").exists()


def test_a_shell_that_stops_itself_is_stopped_in_place_of_the_entry_point(start_fake: Start):
    with start_fake("sh", "-c", "kill -STOP $$; exit 5") as run:
        process = psutil.Process(run.process.pid)
        wait_for(lambda: process.status() == psutil.STATUS_STOPPED, 10, "stopped")
        assert process.name() == "sh"
        assert not process.children()
        process.send_signal(signal.SIGCONT)
        assert run.wait() == 5


def test_a_signal_reaches_it_directly(start_fake: Start):
    with start_fake("sh", "-c", "trap 'exit 9' TERM; echo here; while :; do sleep 0.02; done") as run:
        wait_for(lambda: "here" in run.stdout(), 10, "the trap set")
        run.signal(signal.SIGTERM)
        assert run.wait() == 9
