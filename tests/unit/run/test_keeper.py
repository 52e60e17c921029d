import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from entrypoint.engine.log import FactKind, LogFact
from entrypoint.exit_status import ExitStatus
from entrypoint.plan.plan import Plan
from entrypoint.run import keeper
from entrypoint.run.endings import Ending, EngineDied, SpawnFailed
from entrypoint.run.keeper import KILL_S, PROGRESS_EVERY_S, Keeper
from entrypoint.run.leftovers import Leftovers
from entrypoint.run.numbers import EngineNumbers
from entrypoint.run.release import ReleaseLimits
from entrypoint.run.states import Happening, State
from entrypoint.run.works import Works
from entrypoint.verdict.evidence import LogEvidence, MemoryEvidence, RankEnd

InNoTime = Callable[[Coroutine[Any, Any, Any]], Any]
LIMITS = ReleaseLimits(begin_s=6, finish_s=25)
READING_S = 0.5
"""How long the last lines of an engine take to be read."""


class Engine:
    """A generation and its child in one."""

    def __init__(self, *, started: bool = True, gone: bool = False) -> None:
        self.child = self
        self.started = started
        self.gone = gone
        self.number = 0
        self.started_at = asyncio.get_running_loop().time()
        self.was_ready = False
        self.numbers = EngineNumbers()
        self.release_begun = asyncio.Event()
        self.done: list[str] = []
        self.headroom_before_bytes: int | None = None

    def handles_sigterm(self) -> bool:
        return False

    def kill(self) -> None:
        self.done.append("kill")

    def take(self, facts: list[LogFact]) -> bool:
        return any(self.numbers.note(fact) for fact in facts)

    async def caught_up(self) -> None:
        await asyncio.sleep(READING_S)

    def log_evidence(self) -> LogEvidence:
        return LogEvidence("server-0.log")

    async def close(self) -> None:
        self.done.append("close")

    @property
    def began_unix_s(self) -> float:
        return 1000.0


class Bench:
    """A keeper, and what it posts."""

    def __init__(self, around: Any, engine: Engine | None, state: State = State.READY) -> None:
        self.posted: list[Happening] = []
        self.endings: list[Ending] = []
        self.failures: list[BaseException] = []
        self.around = around
        self.surroundings = around.surroundings()
        self.works = Works(self.failures.append)
        self.keeper = Keeper(self.surroundings, self.works, self.post)
        self.keeper._generation = engine  # type: ignore[assignment]
        self.keeper.state = state

    def post(self, happening: Happening, ending: Ending | None = None) -> None:
        self.posted.append(happening)
        if ending is not None:
            self.endings.append(ending)

    def end(self) -> None:
        self.works.leave(None)
        assert self.failures == []


@contextmanager
def bench(around: Any, engine: Engine | None, state: State = State.READY) -> Iterator[Bench]:
    made = Bench(around, engine, state)
    yield made
    made.end()


def progress(done: int) -> LogFact:
    return LogFact(FactKind.LOAD_PROGRESS, {"done": str(done), "total": "9", "bar": "b"}, "the line")


# Killing


@pytest.mark.parametrize("state", [State.ABORTING, State.STOPPING, State.RESTARTING])
def test_a_running_engine_is_killed_and_its_end_awaited(in_no_time: InNoTime, around: Any, state: State):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, state) as made:
            made.keeper.kill()
            await asyncio.sleep(KILL_S - 0.1)
            assert engine.done == ["kill"]
            assert made.posted == []
            await asyncio.sleep(0.2)
            assert made.posted == [Happening.RELEASE_EXPIRED]
            (note,) = made.keeper.notes
            assert "still there 10 s after SIGKILL" in note

    in_no_time(story())


def test_nothing_is_awaited_where_no_engine_was_ever_started(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        with bench(around, None, State.STOPPING) as made:
            made.keeper.kill()
            assert made.posted == [Happening.ENGINE_GONE]

    in_no_time(story())


@pytest.mark.parametrize("state", [State.ABORTING, State.STOPPING])
def test_an_engine_that_is_gone_is_not_awaited_again(in_no_time: InNoTime, around: Any, state: State):
    async def story() -> None:
        engine = Engine(gone=True)
        with bench(around, engine, state) as made:
            made.keeper.kill()
            await asyncio.sleep(KILL_S * 2)
            assert made.posted == [Happening.ENGINE_GONE]
            assert made.keeper.notes == []

    in_no_time(story())


def test_a_pause_before_a_restart_may_last_longer_than_the_killed_engine(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State.RESTARTING) as made:
            made.keeper.kill()
            engine.gone = True
            await asyncio.sleep(KILL_S * 2)
            assert made.posted == []
            assert made.keeper.notes == []

    in_no_time(story())


def test_a_restart_is_not_told_twice_that_the_old_engine_is_gone(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        with bench(around, Engine(gone=True), State.RESTARTING) as made:
            made.keeper.kill()
            await asyncio.sleep(0)
            assert made.posted == []

    in_no_time(story())


# Release


def test_an_engine_that_survives_its_release_is_given_up(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State.STOPPING) as made:
            await made.keeper.release(LIMITS)
            assert engine.done == ["kill"]
            assert made.posted == [Happening.RELEASE_EXPIRED]
            assert ("tell", "engine-killed", {"why": "nothing-to-release"}) in around.told

    in_no_time(story())


def test_a_release_of_an_engine_that_could_not_be_started_is_over_at_once(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        with bench(around, Engine(started=False), State.STOPPING) as made:
            await made.keeper.release(LIMITS)
            assert made.posted == [Happening.ENGINE_GONE]

    in_no_time(story())


def test_requests_that_a_kill_cut_off_are_noted(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        with bench(around, Engine(), State.STOPPING) as made:
            made.keeper.in_flight = 4
            await made.keeper.release(LIMITS)
            assert made.keeper.notes[0] == "4 requests in flight could not be finished within drain.timeout_s."

    in_no_time(story())


# News of the engine


def test_a_death_is_posted_with_all_that_is_known_of_it(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State.LOADING) as made:
            await asyncio.sleep(7)
            engine.was_ready = True
            around.memory_evidence = MemoryEvidence(total_bytes=1 << 30, floor_bytes=1)
            made.keeper.on_exited(engine, ExitStatus(3, None))  # type: ignore[arg-type]
            await asyncio.sleep(READING_S * 2)
            assert made.posted == [Happening.ENGINE_DIED]
            end = RankEnd(
                0,
                "loading",
                LogEvidence("server-0.log"),
                was_ready=True,
                status=ExitStatus(3, None),
                memory=around.memory_evidence,
                lived_s=pytest.approx(7),
                unasked=True,
            )
            assert made.endings == [EngineDied(State.LOADING, 0, end)]

    in_no_time(story())


def test_a_death_is_told_before_that_nothing_is_left(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State.LOADING) as made:
            made.keeper.on_exited(engine, ExitStatus(3, None))  # type: ignore[arg-type]
            made.keeper.on_gone(engine)  # type: ignore[arg-type]
            await asyncio.sleep(READING_S / 2)
            assert made.posted == []
            await asyncio.sleep(READING_S)
            assert made.posted == [Happening.ENGINE_DIED, Happening.ENGINE_GONE]

    in_no_time(story())


@pytest.mark.parametrize(("state", "in_flight", "lost"), [("draining", 2, 1), ("draining", 0, 0), ("ready", 2, 0)])
def test_requests_that_an_engine_lost_while_it_drained_are_noted(
    in_no_time: InNoTime, around: Any, state: str, in_flight: int, lost: int
):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State(state)) as made:
            made.keeper.in_flight = in_flight
            made.keeper.on_exited(engine, ExitStatus(None, 9))  # type: ignore[arg-type]
            await asyncio.sleep(READING_S * 2)
            assert len(made.keeper.notes) == lost

    in_no_time(story())


@pytest.mark.parametrize(
    ("error", "reason"),
    [(FileNotFoundError(2, "No such file or directory"), "No such file or directory"), (OSError("odd"), "odd")],
)
def test_a_command_that_cannot_be_executed_is_posted_with_the_reason(
    in_no_time: InNoTime, around: Any, error: OSError, reason: str
):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State.STARTING) as made:
            made.keeper.on_spawn_failed(engine, error)  # type: ignore[arg-type]
            assert made.posted == [Happening.SPAWN_FAILED]
            assert made.endings == [SpawnFailed(reason)]

    in_no_time(story())


def test_facts_are_signs_of_phases(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State.STARTING) as made:
            made.keeper._on_facts(engine, [progress(1), LogFact(FactKind.HTTP_UP, {}, "the line")])  # type: ignore[arg-type]
            assert made.posted == [Happening.LOAD_SEEN, Happening.PORT_OPEN]
            assert made.surroundings.board.progress == "1 of 9 shards loaded"

    in_no_time(story())


def test_facts_of_an_earlier_generation_are_nothing(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        with bench(around, Engine(), State.STARTING) as made:
            made.keeper._on_facts(Engine(), [progress(1)])  # type: ignore[arg-type]
            assert made.posted == []
            assert made.surroundings.board.progress is None

    in_no_time(story())


def test_progress_is_told_not_more_often_than_anybody_reads(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State.LOADING) as made:
            for done in range(1, 9):
                made.keeper._on_facts(engine, [progress(done)])  # type: ignore[arg-type]
                await asyncio.sleep(PROGRESS_EVERY_S / 4)
            told = [details["progress"] for _, event, details in around.told if event == "progress"]
            assert told == ["1 of 9 shards loaded", "5 of 9 shards loaded"]
            assert made.surroundings.board.progress == "8 of 9 shards loaded"

    in_no_time(story())


def test_without_an_engine_there_is_nothing_to_look_at(in_no_time: InNoTime, around: Any):
    async def story() -> None:
        with bench(around, None) as made:
            assert made.keeper.look() is None
            assert made.keeper.tail() == ()
            assert not made.keeper.was_ready
            with pytest.raises(RuntimeError, match="no engine was started"):
                _ = made.keeper.current
            await made.keeper.close()

    in_no_time(story())


# A real start


def test_a_command_that_cannot_even_reach_a_warden_is_posted_as_not_executable(
    around: Any, planned: Callable[..., Plan]
):
    async def story() -> None:
        plan = planned(model={"path": "/models/tiny"}, engine={"args": {"chat-template": "x" * (1 << 22)}})
        plan.run_directory.mkdir(parents=True)
        made = Bench(around, None, State.STARTING)
        made.keeper.spawn(plan)
        assert made.posted == [Happening.SPAWN_FAILED]
        assert made.endings == [SpawnFailed("Argument list too long")]
        await made.keeper.close()
        made.end()

    asyncio.run(story())


# Between two starts


def test_what_a_generation_left_is_removed_and_told(around: Any, monkeypatch: pytest.MonkeyPatch):
    asked: list[float] = []

    def remove(since_unix_s: float) -> Leftovers:
        asked.append(since_unix_s)
        return Leftovers(2, 8192)

    async def story() -> None:
        engine = Engine()
        with bench(around, engine, State.RESTARTING) as made:
            await made.keeper.clear_up()
            assert engine.done == ["kill", "close"]

    monkeypatch.setattr(keeper, "remove_leftovers", remove)
    asyncio.run(story())
    assert asked == [1000.0]
    assert ("tell", "leftovers-removed", {"files": 2, "bytes": 8192}) in around.told


def test_where_nothing_was_left_nothing_is_told(around: Any, monkeypatch: pytest.MonkeyPatch):
    async def story() -> None:
        with bench(around, Engine(), State.RESTARTING) as made:
            await made.keeper.clear_up()

    monkeypatch.setattr(keeper, "remove_leftovers", lambda _: Leftovers())
    asyncio.run(story())
    assert around.told == []


def test_memory_that_does_not_come_back_is_told_and_the_next_engine_starts_all_the_same(
    in_no_time: InNoTime, around: Any, monkeypatch: pytest.MonkeyPatch
):
    async def removed(_: Keeper) -> None:
        return

    async def story() -> None:
        engine = Engine()
        engine.headroom_before_bytes = 490 << 30
        around.known_headroom_bytes = 300 << 30
        with bench(around, engine, State.RESTARTING) as made:
            await made.keeper.clear_up()
            assert made.keeper.notes == [
                "190.0 GiB of memory did not come back after the engine had ended: somebody else holds it."
            ]

    monkeypatch.setattr(Keeper, "_remove_leftovers", removed)
    in_no_time(story())
    assert around.told == [("warn", "memory-not-back", {"missing_bytes": 190 << 30})]


def test_a_look_for_leftovers_that_hangs_does_not_keep_the_restart(around: Any, monkeypatch: pytest.MonkeyPatch):
    released = threading.Event()

    async def story() -> None:
        with bench(around, Engine(), State.RESTARTING) as made:
            await made.keeper.clear_up()

    monkeypatch.setattr(keeper, "remove_leftovers", lambda _: released.wait(60))
    monkeypatch.setattr(keeper, "CLEAR_UP_S", 0.2)
    asyncio.run(story())
    released.set()
    assert [event for _, event, _ in around.told] == ["leftovers-unknown"]
