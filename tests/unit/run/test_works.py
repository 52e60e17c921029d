import asyncio
from collections.abc import Coroutine
from typing import Any

from entrypoint.run.states import SERVING, State
from entrypoint.run.works import Works


class Bench:
    """Works whose tasks note how they ended."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.ended: dict[str, str] = {}
        self.works = Works(self.failures.append)
        asyncio.get_running_loop().set_exception_handler(self._fault)

    def start(self, name: str, *homes: State, work: Coroutine[Any, Any, None] | None = None) -> None:
        self.works.start(name, self._note(name, work or asyncio.sleep(3600)), frozenset(homes))

    def _fault(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(context["exception"])

    async def _note(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self.ended[name] = "cancelled"
            raise
        self.ended[name] = "done"


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def boom() -> None:
    raise ValueError("boom")


def test_a_task_lives_while_the_run_is_in_one_of_its_home_states():
    async def story() -> None:
        bench = Bench()
        bench.start("watch", *SERVING)
        await settle()
        bench.works.leave(State.DEGRADED)
        await settle()
        assert bench.ended == {}
        bench.works.leave(State.DRAINING)
        await settle()
        assert bench.ended == {"watch": "cancelled"}

    asyncio.run(story())


def test_only_the_tasks_that_are_not_at_home_end():
    async def story() -> None:
        bench = Bench()
        bench.start("release", State.STOPPING, State.ABORTING)
        bench.start("drain", State.DRAINING)
        await settle()
        bench.works.leave(State.STOPPING)
        await settle()
        assert bench.ended == {"drain": "cancelled"}
        bench.works.leave(None)

    asyncio.run(story())


def test_everything_ends_in_the_end():
    async def story() -> None:
        bench = Bench()
        bench.start("one", *State)
        bench.start("two", State.READY)
        await settle()
        bench.works.leave(None)
        await settle()
        assert bench.ended == {"one": "cancelled", "two": "cancelled"}

    asyncio.run(story())


def test_what_a_task_raises_is_told():
    async def story() -> None:
        bench = Bench()
        bench.start("check", State.CHECKING, work=boom())
        await settle()
        (failure,) = bench.failures
        assert isinstance(failure, ValueError)

    asyncio.run(story())


def test_a_task_that_ends_or_is_cancelled_is_no_failure():
    async def story() -> None:
        bench = Bench()
        bench.start("short", State.READY, work=asyncio.sleep(0))
        bench.start("long", State.READY)
        await settle()
        bench.works.leave(State.DRAINING)
        await settle()
        assert bench.ended == {"short": "done", "long": "cancelled"}
        assert bench.failures == []

    asyncio.run(story())


def test_a_task_that_never_began_is_cancelled_silently():
    async def story() -> None:
        bench = Bench()
        bench.works.start("check", asyncio.sleep(3600), {State.CHECKING})
        bench.works.leave(State.FAILED)
        await settle()
        assert bench.failures == []

    asyncio.run(story())


def test_a_task_may_end_the_state_that_it_lives_in():
    async def story() -> None:
        bench = Bench()

        async def move_on() -> None:
            bench.works.leave(State.WARMING)

        bench.works.start("check", move_on(), {State.CHECKING})
        await settle()
        assert bench.failures == []

    asyncio.run(story())
