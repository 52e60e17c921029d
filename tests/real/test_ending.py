"""How a run of the real engine ends: drained, forced, killed, restarted; and never a process left behind."""

import os
import signal
import threading
from collections.abc import Callable

import httpx
import psutil
import pytest
from harness import READY_S, Supervised, wait_for

pytestmark = pytest.mark.real
Start = Callable[..., Supervised]

LONG = {"max_tokens": 1500, "ignore_eos": True}
"""A request that the tiny model takes several seconds for, and a busy machine a minute."""
PATIENT = ("--drain.timeout_s", "150")
"""Time for it to finish also there."""


class InFlight:
    """A long request in a thread."""

    def __init__(self, run: Supervised) -> None:
        self.answer: dict[str, object] | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._ask, args=(run,))
        self._thread.start()
        client = f"http://127.0.0.1:{run.engine_port}/v1/loads?include=core"
        wait_for(
            lambda: httpx.get(client, trust_env=False).json()["loads"][0]["num_running_reqs"] > 0,
            20,
            "a running request",
        )

    def _ask(self, run: Supervised) -> None:
        try:
            self.answer = run.ask("hello please answer", **LONG)
        except Exception as error:  # noqa: BLE001  # whatever it is, the test shows it
            self.error = error

    def join(self) -> None:
        self._thread.join(200)


def test_sigterm_lets_a_request_in_flight_finish_and_turns_readyz_first(start: Start):
    with start(*PATIENT) as run:
        run.wait_state("ready", READY_S)
        request = InFlight(run)
        run.signal(signal.SIGTERM)
        wait_for(lambda: run.get("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE, 2, "/readyz 503")
        assert run.state() == "draining"
        assert not (run.run_directory / "endpoint.json").exists()
        assert request.answer is None
        code = run.wait(200)
        request.join()
        assert request.error is None
        assert request.answer is not None
        assert code == 0
        run.assert_nothing_left()
        assert run.report()["notes"] == []


def test_a_scheduler_that_signals_every_process_costs_no_request(start: Start):
    with start(*PATIENT) as run:
        run.wait_state("ready", READY_S)
        request = InFlight(run)
        for pid in run.tree():
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGTERM)
        code = run.wait(200)
        request.join()
        assert request.error is None
        assert request.answer is not None
        assert code == 0
        run.assert_nothing_left()


@pytest.mark.parametrize("state", ["starting", "loading"])
def test_sigterm_ends_a_start_in_the_middle(start: Start, state: str):
    with start() as run:
        wait_for(lambda: run.state() in {state, "engine-up", "proving", "ready"}, READY_S, state)
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0
        run.assert_nothing_left()


def test_an_engine_killed_while_serving_is_started_again(start: Start):
    with start() as run:
        run.wait_state("ready", READY_S)
        first = run.named("-m sglang.launch_server")
        scheduler = run.named("sglang::scheduler")
        scheduler.kill()
        wait_for(lambda: run.status()["generation"] == 1, 30, "the second generation")
        run.wait_state("ready", READY_S)
        assert run.status()["restarts"] == 1
        assert not psutil.pid_exists(first.pid) or run.named("-m sglang.launch_server").pid != first.pid
        assert run.ask("hello please")["choices"]
        run.signal(signal.SIGINT)
        assert run.wait(40) == 0
        run.assert_nothing_left()


def test_an_engine_killed_without_a_restart_left_ends_the_run_with_a_verdict(start: Start):
    with start("--restart.max", "0") as run:
        run.wait_state("ready", READY_S)
        main = next(
            process
            for process in psutil.Process(run.process.pid).children(recursive=True)
            if "launch_server" in " ".join(process.cmdline()) and "warden" not in " ".join(process.cmdline())
        )
        main.kill()
        assert run.wait(10) == 70
        report = run.report()
        assert "while serving" in report["summary"]
        assert "SIGKILL" in report["summary"]
        run.assert_nothing_left()


def test_sigkill_of_the_supervisor_takes_the_engine_along(start: Start):
    with start() as run:
        run.wait_state("ready", READY_S)
        run.signal(signal.SIGKILL)
        run.wait(5)
        run.assert_nothing_left()


def test_a_stopped_supervisor_kills_nothing(start: Start):
    with start() as run:
        run.wait_state("ready", READY_S)
        run.signal(signal.SIGSTOP)
        for _ in range(10):
            assert run.ask("hello please")["choices"]
        run.signal(signal.SIGCONT)
        run.wait_state("ready", 10)
        assert run.status()["generation"] == 0
