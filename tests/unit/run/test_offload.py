import asyncio
import threading
from typing import Any

import pytest

from entrypoint.offload import offload

PATIENCE_S = 20.0


class Gate:
    """Work that blocks until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.thread: threading.Thread | None = None

    def work(self) -> str:
        self.thread = threading.current_thread()
        self.entered.set()
        assert self.open.wait(PATIENCE_S)
        return "late"

    def end(self) -> None:
        """Let the work end, and see that its thread does."""
        self.open.set()
        assert self.thread is not None
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


def faults_of_the_loop() -> list[dict[str, Any]]:
    """Return a list that grows with everything that goes wrong in the loop's own callbacks."""
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    return faults


def test_the_result_of_the_work_is_returned():
    assert asyncio.run(offload(lambda: 6 * 7, "work")) == 42


@pytest.mark.parametrize("error", [ValueError("boom"), KeyboardInterrupt(), SystemExit(3)])
def test_what_the_work_raises_is_raised(error: BaseException):
    def work() -> None:
        raise error

    async def caught() -> BaseException | None:
        try:
            await offload(work, "work")
        except BaseException as caught:  # noqa: BLE001 - whatever it is, is what this looks at
            return caught
        return None

    assert asyncio.run(caught()) is error


def test_the_loop_goes_on_while_the_work_blocks():
    async def story() -> str:
        gate = Gate()
        waiting = asyncio.create_task(offload(gate.work, "work"))
        await offload(gate.entered.wait, "entered")
        assert not waiting.done()
        gate.open.set()
        return await waiting

    assert asyncio.run(story()) == "late"


def test_the_work_runs_in_a_daemon_thread_that_bears_its_name():
    thread = asyncio.run(offload(threading.current_thread, "preflight"))
    assert (thread.name, thread.daemon) == ("preflight", True)


def test_work_that_ends_after_the_loop_was_closed_ends_silently():
    gate = Gate()

    async def story() -> None:
        waiting = asyncio.create_task(offload(gate.work, "work"))
        await offload(gate.entered.wait, "entered")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(story())
    gate.end()


def test_a_waiter_that_is_cancelled_does_not_wait_for_the_work_and_its_result_is_dropped():
    async def story() -> None:
        faults = faults_of_the_loop()
        gate = Gate()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(offload(gate.work, "work"), 0.01)
        gate.end()
        await asyncio.sleep(0)
        assert faults == []

    asyncio.run(story())


def test_work_that_fails_after_its_waiter_was_cancelled_fails_silently():
    async def story() -> None:
        faults = faults_of_the_loop()
        gate = Gate()

        def work() -> None:
            gate.work()
            raise ValueError("late")

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(offload(work, "work"), 0.01)
        gate.end()
        await asyncio.sleep(0)
        assert faults == []

    asyncio.run(story())
