import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from entrypoint.engine.client import (
    EngineClient,
    EngineLoad,
    Fault,
    Readiness,
    Unavailable,
    describe,
    open_http,
)

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "engine" / "answers.json").read_text(encoding="utf-8"))
T = TypeVar("T")
Handler = Callable[[httpx.Request], httpx.Response]


def recorded(name: str) -> httpx.Response:
    answer = RECORDED[name]
    return httpx.Response(answer["status"], content=answer["body"].encode())


def ask(handler: Handler, question: Callable[[EngineClient], Awaitable[T]]) -> T:
    async def asked() -> T:
        http = httpx.AsyncClient(transport=httpx.MockTransport(handler), base_url="http://engine")
        async with EngineClient(http) as client:
            return await question(client)

    return asyncio.run(asked())


def always(response: httpx.Response) -> Handler:
    return lambda _: response


def failing(error: httpx.HTTPError) -> Handler:
    def handle(_: httpx.Request) -> httpx.Response:
        raise error

    return handle


def paths(**responses: httpx.Response) -> Handler:
    return lambda request: responses[request.url.path.strip("/")]


@pytest.mark.parametrize(
    ("name", "readiness"),
    [
        ("/ready", Readiness.READY),
        ("warming /ready", Readiness.WARMING),
        ("unauthorized", Readiness.UNREACHABLE),
    ],
)
def test_readiness_is_what_ready_says(name: str, readiness: Readiness):
    assert ask(always(recorded(name)), EngineClient.ready) is readiness


@pytest.mark.parametrize(
    ("error", "readiness"),
    [
        (httpx.ConnectError("Connection refused"), Readiness.REFUSED),
        (httpx.ConnectTimeout(""), Readiness.UNREACHABLE),
        (httpx.ReadTimeout(""), Readiness.UNREACHABLE),
        (httpx.RemoteProtocolError("gone"), Readiness.UNREACHABLE),
    ],
)
def test_a_refused_connection_is_told_from_one_that_hangs(error: httpx.HTTPError, readiness: Readiness):
    assert ask(failing(error), EngineClient.ready) is readiness


@pytest.mark.parametrize(
    ("health", "readiness"),
    [(200, Readiness.READY), (503, Readiness.WARMING), (404, Readiness.UNREACHABLE)],
)
def test_an_engine_without_ready_is_asked_for_its_health(health: int, readiness: Readiness):
    handler = paths(ready=recorded("no such path"), health=httpx.Response(health))
    assert ask(handler, EngineClient.ready) is readiness


def test_health_is_not_asked_when_there_is_a_ready():
    assert ask(paths(ready=httpx.Response(503)), EngineClient.ready) is Readiness.WARMING


def test_a_recorded_load_is_read():
    load = ask(always(recorded("/v1/loads")), EngineClient.load)
    assert load == EngineLoad(
        running=0,
        waiting=0,
        used_tokens=0,
        max_total_tokens=8192,
        token_usage=0.0,
        gen_throughput=235.59,
        cache_hit_rate=0.9767,
        snapshot_unix_s=recorded("/v1/loads").json()["loads"][0]["timestamp"],
    )


def rank(**fields: Any) -> dict[str, Any]:
    base = {
        "num_running_reqs": 1,
        "num_waiting_reqs": 2,
        "num_used_tokens": 100,
        "max_total_num_tokens": 1000,
        "gen_throughput": 10.0,
        "cache_hit_rate": 0.5,
    }
    return {**base, **fields}


def test_loads_are_summed_over_data_parallel_ranks():
    body = {"loads": [rank(timestamp=7.5), rank(num_used_tokens=500, cache_hit_rate=1.0, timestamp=6.5)]}
    load = ask(always(httpx.Response(200, json=body)), EngineClient.load)
    assert load == EngineLoad(
        running=2,
        waiting=4,
        used_tokens=600,
        max_total_tokens=2000,
        token_usage=0.3,
        gen_throughput=20.0,
        cache_hit_rate=0.75,
        snapshot_unix_s=6.5,
    )


def test_an_engine_that_does_not_say_when_it_looked_is_read_all_the_same():
    load = ask(always(httpx.Response(200, json={"loads": [rank()]})), EngineClient.load)
    assert isinstance(load, EngineLoad)
    assert load.snapshot_unix_s is None


def test_a_pool_of_no_tokens_is_not_in_use():
    body = {"loads": [rank(num_used_tokens=0, max_total_num_tokens=0)]}
    load = ask(always(httpx.Response(200, json=body)), EngineClient.load)
    assert isinstance(load, EngineLoad)
    assert load.token_usage == 0


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        (recorded("no such path"), Fault.ABSENT),
        (httpx.Response(405), Fault.ABSENT),
        (recorded("unauthorized"), Fault.DENIED),
        (httpx.Response(500, text="Internal Server Error"), Fault.ERROR),
        (httpx.Response(200, text="<html>"), Fault.NONSENSE),
        (httpx.Response(200, json={"loads": []}), Fault.NONSENSE),
        (httpx.Response(200, json={"loads": [rank(num_running_reqs="many")]}), Fault.NONSENSE),
        (httpx.Response(200, json={"loads": [rank(num_used_tokens=-1)]}), Fault.NONSENSE),
        (httpx.Response(200), Fault.NONSENSE),
    ],
)
def test_a_load_that_is_not_told_says_why(response: httpx.Response, fault: Fault):
    answer = ask(always(response), EngineClient.load)
    assert isinstance(answer, Unavailable)
    assert answer.fault is fault
    assert answer.detail.startswith("GET /v1/loads")


def test_a_question_to_nobody_is_unreachable():
    answer = ask(failing(httpx.ConnectError("Connection refused")), EngineClient.models)
    assert answer == Unavailable(Fault.UNREACHABLE, "GET /v1/models failed: ConnectError: Connection refused.")


def test_the_models_are_listed_in_their_order():
    assert ask(always(recorded("/v1/models")), EngineClient.models) == ("tiny",)


def test_model_info_is_passed_on_as_it_is():
    info = ask(always(recorded("/model_info")), EngineClient.model_info)
    assert not isinstance(info, Unavailable)
    assert (info["reasoning_parser"], info["tool_call_parser"]) == ("qwen3", "qwen")


def test_a_model_info_that_is_no_object_is_nonsense():
    answer = ask(always(httpx.Response(200, json=[1])), EngineClient.model_info)
    assert isinstance(answer, Unavailable)
    assert answer.fault is Fault.NONSENSE


def test_a_long_answer_is_cut_in_the_detail():
    answer = ask(always(httpx.Response(500, text="x" * 5000)), EngineClient.models)
    assert isinstance(answer, Unavailable)
    assert len(answer.detail) < 400


def test_the_environment_s_proxies_are_not_used_and_the_key_is_a_bearer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    client = EngineClient.open("http://engine:30000", api_key="k")
    assert client.http.headers["Authorization"] == "Bearer k"
    assert client.http.trust_env is False
    asyncio.run(client.aclose())
    assert client.http.is_closed


def test_without_a_key_none_is_sent():
    client = open_http("http://engine:30000")
    assert "Authorization" not in client.headers
    asyncio.run(client.aclose())


def test_an_error_without_words_is_described_by_its_name():
    assert describe(httpx.ReadTimeout("")) == "ReadTimeout"
