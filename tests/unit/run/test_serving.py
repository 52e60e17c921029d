import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from entrypoint.engine.client import EngineClient
from entrypoint.prove.transcript import CheckResult, CheckSpec, Failure, FailureKind
from entrypoint.run import serving
from entrypoint.run.generation import Generation
from entrypoint.run.hang import HangClock
from entrypoint.run.serving import (
    IDLE_LOOKS,
    LOOK_S,
    SERVING_LOOK_S,
    SILENT_LOOKS,
    ServingHooks,
    prove_server,
    wait_until_idle,
    wait_until_ready,
    watch_serving,
)

InNoTime = Callable[[Coroutine[Any, Any, Any]], Any]
SPEC = CheckSpec(model="tiny", tools=True, reasoning=True, max_tokens=64, timeout_s=60, cached_tokens=False)
FAILED = CheckResult((Failure(FailureKind.NO_CALL, "There is no call.", "Look.", ""),), (), 1.0)
PASSED = CheckResult((), (), 1.0)


@dataclass
class Engine:
    """An engine that answers what it is told to.

    Attributes:
        ready: Status of its ``/ready``; None refuses the connection.
        in_flight: Requests in flight; None does not say.
        asked: How often each path was asked for.
    """

    ready: int | None = None
    in_flight: int | None = 0
    asked: dict[str, int] = field(default_factory=dict)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked[path] = self.asked.get(path, 0) + 1
        if path == "/ready" and self.ready is not None:
            return httpx.Response(self.ready)
        if path == "/v1/loads" and self.in_flight is not None:
            return httpx.Response(200, json={"loads": [load(self.in_flight)]})
        raise httpx.ConnectError("refused", request=request)


def load(in_flight: int) -> dict[str, float]:
    return {
        "num_running_reqs": in_flight // 2,
        "num_waiting_reqs": in_flight - in_flight // 2,
        "num_used_tokens": 5,
        "max_total_num_tokens": 100,
        "gen_throughput": 0.0,
        "cache_hit_rate": 0.5,
    }


async def its_own() -> bool:
    return True


async def a_strangers() -> bool:
    return False


@asynccontextmanager
async def client_of(engine: Callable[[httpx.Request], httpx.Response]) -> AsyncIterator[EngineClient]:
    http = httpx.AsyncClient(transport=httpx.MockTransport(engine), base_url="http://engine")
    async with EngineClient(http) as client:
        yield client


def now() -> float:
    return asyncio.get_running_loop().time()


# Until it is ready


def test_an_engine_is_ready_when_it_says_so(in_no_time: InNoTime):
    async def story() -> None:
        engine = Engine()
        opened: list[float] = []
        async with client_of(engine) as client:
            began_at = now()
            waiting = asyncio.create_task(
                wait_until_ready(Generation(0, 0, client), its_own, lambda: opened.append(now() - began_at))
            )
            await asyncio.sleep(10.5)
            engine.ready = 503
            await asyncio.sleep(10)
            assert not waiting.done()
            assert opened == [pytest.approx(11)]
            engine.ready = 200
            await waiting
            assert now() - began_at == pytest.approx(21)

    in_no_time(story())


def test_an_engine_that_is_ready_at_the_first_look_is_not_called_open_before(in_no_time: InNoTime):
    async def story() -> None:
        opened: list[bool] = []
        async with client_of(Engine(ready=200)) as client:
            await wait_until_ready(Generation(0, 0, client), its_own, lambda: opened.append(True))
        assert opened == []

    in_no_time(story())


def test_a_word_of_the_log_is_followed_by_a_look_at_once(in_no_time: InNoTime):
    async def story() -> None:
        engine = Engine()
        async with client_of(engine) as client:
            generation = Generation(0, 0, client)
            waiting = asyncio.create_task(wait_until_ready(generation, its_own, lambda: None))
            await asyncio.sleep(LOOK_S * 3.25)
            engine.ready = 200
            told_at = now()
            generation.nudge.set()
            await waiting
            assert now() == told_at

    in_no_time(story())


def test_a_word_that_comes_during_a_look_is_not_lost(in_no_time: InNoTime):
    async def story() -> None:
        generation: Generation | None = None

        def answer(_: httpx.Request) -> httpx.Response:
            assert generation is not None
            if not generation.nudge.is_set() and not answered:
                answered.append(True)
                generation.nudge.set()
                return httpx.Response(503)
            return httpx.Response(200)

        answered: list[bool] = []
        async with client_of(answer) as client:
            generation = Generation(0, 0, client)
            began_at = now()
            await wait_until_ready(generation, its_own, lambda: None)
            assert now() == began_at

    in_no_time(story())


@pytest.mark.parametrize("status", [200, 503])
def test_somebody_else_who_answers_on_its_port_is_not_taken_for_the_engine(in_no_time: InNoTime, status: int):
    async def story() -> None:
        opened: list[bool] = []
        async with client_of(Engine(ready=status)) as client:
            generation = Generation(0, 0, client)
            assert not await wait_until_ready(generation, a_strangers, lambda: opened.append(True))
        assert opened == []

    in_no_time(story())


# Until it is idle


def test_an_engine_is_idle_when_two_looks_in_a_row_say_so(in_no_time: InNoTime):
    async def story() -> None:
        looks: list[int | None] = []
        answers = iter([3, 0, 1, 0, 0, 0])

        def answer(_: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"loads": [load(next(answers))]})

        async with client_of(answer) as client:
            await wait_until_idle(client, looks.append)
        assert looks == [3, 0, 1, 0, 0]

    assert IDLE_LOOKS == 2
    in_no_time(story())


def test_requests_of_every_queue_and_every_rank_count(in_no_time: InNoTime):
    async def story() -> None:
        looks: list[int | None] = []
        answers: Iterator[list[int]] = iter([[2, 3], [0, 1], [0, 0], [0, 0]])

        def answer(_: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"loads": [load(count) for count in next(answers)]})

        async with client_of(answer) as client:
            await wait_until_idle(client, looks.append)
        assert looks == [5, 1, 0, 0]

    in_no_time(story())


def test_an_engine_that_cannot_say_is_not_waited_for(in_no_time: InNoTime):
    async def story() -> None:
        looks: list[int | None] = []
        async with client_of(Engine(in_flight=None)) as client:
            await wait_until_idle(client, looks.append)
        assert looks == [None]

    in_no_time(story())


def test_what_a_scheduler_said_before_its_step_does_not_make_it_idle(in_no_time: InNoTime):
    async def story() -> None:
        looks: list[int | None] = []
        answers = iter([(5.0, 0), (5.0, 0), (5.0, 0), (6.0, 1), (6.0, 1), (7.0, 0), (8.0, 0)])

        def answer(_: httpx.Request) -> httpx.Response:
            snapshot, count = next(answers)
            return httpx.Response(200, json={"loads": [{**load(count), "timestamp": snapshot}]})

        async with client_of(answer) as client:
            await wait_until_idle(client, looks.append)
        assert looks == [0, None, None, 1, 1, 0, 0]

    in_no_time(story())


def test_an_engine_with_work_is_waited_for_as_long_as_it_takes(in_no_time: InNoTime):
    async def story() -> None:
        async with client_of(Engine(in_flight=1)) as client:
            waiting = asyncio.create_task(wait_until_idle(client, lambda _: None))
            await asyncio.sleep(60)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    in_no_time(story())


# While it serves


@dataclass
class Ward:
    """What is told of a serving engine, and how its canaries end."""

    told: list[tuple[float, str]] = field(default_factory=list)
    loads: list[dict[str, Any]] = field(default_factory=list)
    canary: CheckResult = PASSED
    began_at: float = field(default_factory=now)
    signs: int = 0

    def note(self, what: str) -> None:
        self.told.append((round(now() - self.began_at, 3), what))

    def hooks(self) -> ServingHooks:
        return ServingHooks(
            on_load=self.loads.append,
            on_check=lambda result: self.note("passed" if result.passed else "failed"),
            on_trouble=self.note,
            on_well=lambda: self.note("well"),
            on_hang=lambda still: self.note(f"hangs for {still.for_s:.0f} s"),
            signs=lambda: self.signs,
        )

    def events(self) -> list[tuple[float, str]]:
        """Return what was told, without the looks at which all was well."""
        return [(at, what) for at, what in self.told if what != "well"]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Watch an engine for a while; ``story`` gets the ward and goes on beside it."""

    @asynccontextmanager
    async def watch(
        engine: Engine, *, spec: CheckSpec | None = SPEC, every_s: float = 60, stall_s: float = 0
    ) -> AsyncIterator[Ward]:
        ward = Ward()

        async def canary(*_: object) -> CheckResult:
            return ward.canary

        monkeypatch.setattr(serving, "prove_server", canary)
        async with client_of(engine) as client:
            watching = asyncio.create_task(watch_serving(client, spec, every_s, HangClock(stall_s), ward.hooks()))
            yield ward
            assert watching.done() is any("hangs" in what for _, what in ward.told)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    return watch


def test_a_good_look_says_so_and_shows_the_load(in_no_time: InNoTime, watched: Callable[..., Any]):
    async def story() -> None:
        async with watched(Engine(in_flight=3)) as ward:
            await asyncio.sleep(SERVING_LOOK_S + 0.1)
            assert ward.told == [(SERVING_LOOK_S, "well")]
            assert (ward.loads[0]["running"], ward.loads[0]["waiting"]) == (1, 2)

    in_no_time(story())


def test_an_engine_is_in_trouble_after_several_looks_without_an_answer(
    in_no_time: InNoTime, watched: Callable[..., Any]
):
    async def story() -> None:
        async with watched(Engine(in_flight=None), every_s=0) as ward:
            await asyncio.sleep(SERVING_LOOK_S * SILENT_LOOKS - 0.1)
            assert ward.told == []
            await asyncio.sleep(0.2)
            ((_, what),) = ward.told
            assert what.startswith("the engine does not answer: GET /v1/loads")

    in_no_time(story())


def test_one_silent_look_alone_is_no_trouble(in_no_time: InNoTime, watched: Callable[..., Any]):
    async def story() -> None:
        engine = Engine()
        async with watched(engine, every_s=0) as ward:
            for _ in range(10):
                engine.in_flight = None
                await asyncio.sleep(SERVING_LOOK_S * (SILENT_LOOKS - 1))
                engine.in_flight = 0
                await asyncio.sleep(SERVING_LOOK_S)
            assert ward.events() == []

    in_no_time(story())


def test_an_engine_that_answers_again_is_well(in_no_time: InNoTime, watched: Callable[..., Any]):
    async def story() -> None:
        engine = Engine(in_flight=None)
        async with watched(engine, every_s=0) as ward:
            await asyncio.sleep(SERVING_LOOK_S * 5)
            engine.in_flight = 0
            await asyncio.sleep(SERVING_LOOK_S + 0.1)
            assert ward.told[-1] == (SERVING_LOOK_S * 6, "well")

    in_no_time(story())


def test_a_canary_sings_when_it_is_time_and_the_engine_is_idle(in_no_time: InNoTime, watched: Callable[..., Any]):
    async def story() -> None:
        async with watched(Engine(), every_s=60) as ward:
            await asyncio.sleep(130)
            assert ward.events() == [(60, "passed"), (120, "passed")]

    in_no_time(story())


def test_a_busy_engine_is_not_bothered_until_it_is_idle(in_no_time: InNoTime, watched: Callable[..., Any]):
    async def story() -> None:
        engine = Engine(in_flight=1)
        async with watched(engine, every_s=60) as ward:
            await asyncio.sleep(301)
            assert ward.events() == []
            engine.in_flight = 0
            await asyncio.sleep(SERVING_LOOK_S)
            assert ward.events() == [(305, "passed")]

    in_no_time(story())


def test_a_canary_that_fails_is_trouble_until_one_passes(in_no_time: InNoTime, watched: Callable[..., Any]):
    async def story() -> None:
        async with watched(Engine(), every_s=60) as ward:
            ward.canary = FAILED
            await asyncio.sleep(61)
            assert ward.told[-2:] == [(60, "failed"), (60, "the canary failed: There is no call.")]
            ward.canary = PASSED
            await asyncio.sleep(58)
            assert ward.told[-1][0] == 60
            await asyncio.sleep(2)
            assert ward.told[-2:] == [(120, "passed"), (120, "well")]

    in_no_time(story())


def test_silence_and_a_failed_canary_are_not_cured_by_an_answer_alone(
    in_no_time: InNoTime, watched: Callable[..., Any]
):
    async def story() -> None:
        engine = Engine()
        async with watched(engine, every_s=60) as ward:
            ward.canary = FAILED
            await asyncio.sleep(61)
            engine.in_flight = None
            await asyncio.sleep(20)
            engine.in_flight = 0
            await asyncio.sleep(20)
            assert "well" not in [what for at, what in ward.told if at > 60]

    in_no_time(story())


@pytest.mark.parametrize(("spec", "every_s"), [(SPEC, 0), (None, 60)])
def test_no_canary_sings_where_none_is_wanted(
    in_no_time: InNoTime, watched: Callable[..., Any], spec: CheckSpec | None, every_s: float
):
    async def story() -> None:
        async with watched(Engine(), spec=spec, every_s=every_s) as ward:
            await asyncio.sleep(1000)
            assert ward.events() == []

    in_no_time(story())


# Proof


def test_a_server_is_proven_with_the_parsers_that_it_says_it_has():
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if request.url.path == "/model_info":
            return httpx.Response(200, json={"reasoning_parser": "qwen3", "tool_call_parser": "qwen25"})
        assert json.loads(request.content)["model"] == "tiny"
        return httpx.Response(401, text="Unauthorized")

    async def story() -> CheckResult:
        async with client_of(answer) as client:
            return await prove_server(client, SPEC)

    result = asyncio.run(story())
    assert [failure.kind for failure in result.failures] == [FailureKind.UNAUTHORIZED]
    assert asked[0] == "/model_info"


def test_a_server_that_does_not_speak_of_parsers_is_proven_all_the_same():
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(404 if request.url.path == "/model_info" else 401, text="no")

    async def story() -> CheckResult:
        async with client_of(answer) as client:
            return await prove_server(client, SPEC)

    assert [failure.kind for failure in asyncio.run(story()).failures] == [FailureKind.UNAUTHORIZED]


def test_a_hang_is_told_once_and_ends_the_watching(in_no_time: InNoTime, watched: Callable[..., Any]):
    async def story() -> None:
        async with watched(Engine(in_flight=3), stall_s=60) as ward:
            await asyncio.sleep(200)
            assert [what for _, what in ward.events()] == ["hangs for 60 s"]

    in_no_time(story())


def test_an_engine_whose_log_shows_work_does_not_hang(in_no_time: InNoTime, watched: Callable[..., Any]):
    async def story() -> None:
        async with watched(Engine(in_flight=3), stall_s=60) as ward:
            for _ in range(10):
                await asyncio.sleep(50)
                ward.signs += 1
            assert ward.events() == []

    in_no_time(story())
