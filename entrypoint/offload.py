"""Blocking work kept off the event loop, in threads that cannot keep the process from ending.

The standard executor's threads are joined at exit, so one look at a hung network file system would outlive the run;
these are daemons.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def offload(work: Callable[[], Result], name: str) -> Result:
    """Run a function in a daemon thread and return its result, or raise what it raised.

    Cancelling the wait leaves the thread to end by itself; its result is dropped.

    Args:
        work: The function, without arguments.
        name: Name of the thread, for whoever looks at a stack dump.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def deliver(setter: Callable[[], None]) -> None:
        def apply() -> None:
            if not outcome.done():
                setter()

        try:
            loop.call_soon_threadsafe(apply)
        except RuntimeError:
            return  # the loop has closed: nobody waits for this any more

    def body() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # handed to the one who waits, whatever it is
            caught = error
            deliver(lambda: outcome.set_exception(caught))
        else:
            deliver(lambda: outcome.set_result(result))

    threading.Thread(target=body, name=name, daemon=True).start()
    return await outcome
