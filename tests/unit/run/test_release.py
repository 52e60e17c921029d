import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from entrypoint.run.release import ReleaseLimits, ReleaseStep, release

InNoTime = Callable[[Coroutine[Any, Any, Any]], Any]
LIMITS = ReleaseLimits(begin_s=6, finish_s=25)


class Engine:
    """A generation and its child in one, that notes what is done to it and when."""

    def __init__(self, *, handles: bool = True) -> None:
        self.child = self
        self.release_begun = asyncio.Event()
        self.done: list[tuple[str, float]] = []
        self.on_freeze: Callable[[], None] = lambda: None
        self._handles = handles
        self._loop = asyncio.get_running_loop()
        self._began_at = self._loop.time()

    def note(self, what: str) -> None:
        self.done.append((what, round(self._loop.time() - self._began_at, 3)))

    def begin_after(self, delay_s: float) -> None:
        self._loop.call_later(delay_s, self.release_begun.set)

    def handles_sigterm(self) -> bool:
        return self._handles

    def terminate(self) -> None:
        self.note("terminate")

    def freeze(self) -> None:
        self.note("freeze")
        self.on_freeze()

    def thaw(self) -> None:
        self.note("thaw")

    def kill(self) -> None:
        self.note("kill")


async def released(engine: Engine, limits: ReleaseLimits = LIMITS, *, idle: bool = True) -> ReleaseStep:
    return await release(engine, limits, idle=idle)  # type: ignore[arg-type]


@pytest.mark.parametrize("idle", [True, False])
def test_an_engine_without_a_handler_has_nothing_to_release_and_is_killed_at_once(in_no_time: InNoTime, *, idle: bool):
    async def story() -> None:
        engine = Engine(handles=False)
        assert await released(engine, idle=idle) is ReleaseStep.NOTHING_TO_RELEASE
        assert engine.done == [("kill", 0)]

    in_no_time(story())


def test_an_engine_that_begins_gets_all_the_time_there_is(in_no_time: InNoTime):
    async def story() -> None:
        engine = Engine()
        engine.begin_after(4)
        assert await released(engine) is ReleaseStep.TIME_OVER
        assert engine.done == [("terminate", 0), ("kill", 25)]

    in_no_time(story())


def test_an_idle_engine_that_does_not_begin_is_frozen_looked_at_and_killed(in_no_time: InNoTime):
    async def story() -> None:
        engine = Engine()
        assert await released(engine) is ReleaseStep.NOT_BEGUN
        assert engine.done == [("terminate", 0), ("freeze", 6), ("kill", 6.1)]

    in_no_time(story())


def test_an_engine_that_began_in_the_last_instant_is_thawed_and_waited_for(in_no_time: InNoTime):
    async def story() -> None:
        engine = Engine()
        engine.on_freeze = lambda: engine.begin_after(0.05)
        assert await released(engine) is ReleaseStep.TIME_OVER
        assert engine.done == [("terminate", 0), ("freeze", 6), ("thaw", 6.05), ("kill", 25)]

    in_no_time(story())


def test_an_engine_with_work_is_never_frozen(in_no_time: InNoTime):
    async def story() -> None:
        engine = Engine()
        assert await released(engine, idle=False) is ReleaseStep.TIME_OVER
        assert engine.done == [("terminate", 0), ("kill", 25)]

    in_no_time(story())


@pytest.mark.parametrize("finish_s", [6, 2])
def test_an_engine_is_not_frozen_where_the_time_is_over_before_it_must_begin(in_no_time: InNoTime, finish_s: float):
    async def story() -> None:
        engine = Engine()
        assert await released(engine, ReleaseLimits(6, finish_s)) is ReleaseStep.TIME_OVER
        assert engine.done == [("terminate", 0), ("kill", finish_s)]

    in_no_time(story())


def test_an_engine_is_asked_and_killed_where_no_time_is_left(in_no_time: InNoTime):
    async def story() -> None:
        engine = Engine()
        assert await released(engine, ReleaseLimits(6, 0), idle=False) is ReleaseStep.TIME_OVER
        assert engine.done == [("terminate", 0), ("kill", 0)]

    in_no_time(story())


def test_an_engine_that_ends_by_itself_is_not_killed(in_no_time: InNoTime):
    async def story() -> None:
        engine = Engine()
        engine.begin_after(4)
        releasing = asyncio.create_task(released(engine))
        await asyncio.sleep(9)
        releasing.cancel()
        await asyncio.gather(releasing, return_exceptions=True)
        assert engine.done == [("terminate", 0)]

    in_no_time(story())
