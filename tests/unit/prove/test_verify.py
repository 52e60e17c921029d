import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.prove.transcript import CheckResult, FailureKind
from entrypoint.prove.verify import server_url, verify

Handler = Callable[[httpx.Request], httpx.Response]
Recording = Callable[[str], dict[str, Any]]
Replay = Callable[[Mapping[str, Any]], Handler]


def run(handler: Handler, url: str = "http://engine:30000/v1", **options: Any) -> CheckResult:
    def connect(base_url: str, *, api_key: str | None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        return httpx.AsyncClient(transport=httpx.MockTransport(handler), base_url=base_url, headers=headers)

    return asyncio.run(verify(url, connect=connect, timeout_s=5, **options))


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://engine:30000", "http://engine:30000"),
        ("http://engine:30000/", "http://engine:30000"),
        ("http://engine:30000/v1", "http://engine:30000"),
        ("http://engine:30000/v1/", "http://engine:30000"),
        ("engine:30000", "http://engine:30000"),
        (" https://host/models/v1?x=1 ", "https://host/models"),
        ("http://[::1]:30000/v1", "http://[::1]:30000"),
    ],
)
def test_a_server_is_known_by_its_url_with_or_without_v1(url: str, base: str):
    assert server_url(url) == base


@pytest.mark.parametrize("url", ["", "ftp://engine", "http://", "http://engine:port"])
def test_a_text_that_is_no_url_is_a_usage_error(url: str):
    with pytest.raises(SuperviseError, match="is not the URL of a server") as caught:
        server_url(url)
    assert caught.value.code is ExitCode.USAGE


def test_the_first_listed_model_is_asked_and_the_engine_s_parsers_are_read(recording: Recording, replay: Replay):
    result = run(replay(recording("qwen3-no-tool-parser")))
    assert {exchange.request["model"] for exchange in result.exchanges} == {"tiny"}
    assert "no tool-call parser is set" in result.failures[0].message


def test_a_named_model_and_the_key_are_sent(recording: Recording, replay: Replay):
    seen = []
    answer = replay(recording("qwen3-right"))

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.path, request.headers["Authorization"]))
        return answer(request)

    result = run(handle, model="mine", api_key="k")
    assert result.passed
    assert {exchange.request["model"] for exchange in result.exchanges} == {"mine"}
    assert "/v1/models" not in {path for path, _ in seen}
    assert {key for _, key in seen} == {"Bearer k"}


def foreign(request: httpx.Request) -> httpx.Response:
    """Answer as a server that is not SGLang: no /model_info, no count of cached tokens, another name for thoughts."""
    if request.url.path == "/v1/models":
        return httpx.Response(200, json={"data": [{"id": "other"}]})
    if request.url.path != "/v1/chat/completions":
        return httpx.Response(404)
    message = {"content": "51", "reasoning": "17 times 3"}
    if json.loads(request.content)["stream"]:
        event = json.dumps({"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]})
        return httpx.Response(200, text=f"data: {event}\n\ndata: [DONE]\n\n")
    return httpx.Response(200, json={"choices": [{"message": message, "finish_reason": "stop"}]})


def test_another_server_than_sglang_passes_without_counting_cached_tokens():
    assert run(foreign, tools=False).passed


def test_another_server_fails_on_cached_tokens_when_they_are_asked_for():
    result = run(foreign, tools=False, cached_tokens=True)
    assert [failure.kind for failure in result.failures] == [FailureKind.NO_CACHED_TOKENS]


def test_sglang_has_to_count_cached_tokens_unless_told_otherwise(recording: Recording, replay: Replay):
    handler = replay(recording("qwen3-no-cache-report"))
    assert [failure.kind for failure in run(handler).failures] == [FailureKind.NO_CACHED_TOKENS]
    assert run(handler, cached_tokens=False).passed


def test_thoughts_need_not_be_required(recording: Recording, replay: Replay):
    recorded = recording("qwen3-right")
    for exchange in recorded["exchanges"].values():
        exchange["body"] = exchange["body"].replace("reasoning_content", "unused")
    assert [failure.kind for failure in run(replay(recorded)).failures] == [FailureKind.NO_THOUGHT]
    assert run(replay(recorded), reasoning=False).passed


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (httpx.Response(401, json={"error": "Unauthorized"}), FailureKind.UNAUTHORIZED),
        (httpx.Response(404), FailureKind.NO_MODEL),
        (httpx.Response(500), FailureKind.SERVER_ERROR),
        (httpx.Response(200, text="<html>"), FailureKind.NO_MODEL),
        (httpx.Response(200, json={"data": []}), FailureKind.NO_MODEL),
    ],
)
def test_a_server_whose_models_cannot_be_listed_says_why(response: httpx.Response, kind: FailureKind):
    result = run(lambda _: response)
    assert [failure.kind for failure in result.failures] == [kind]
    assert result.exchanges == ()


def test_a_key_repeated_by_the_list_of_models_is_not_shown():
    result = run(lambda _: httpx.Response(401, text="bad key correct-horse"), api_key="correct-horse")
    assert "bad key ***" in result.failures[0].message


def test_a_server_that_is_not_there_is_a_failed_connection():
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused")

    result = run(refuse)
    assert [failure.kind for failure in result.failures] == [FailureKind.CONNECTION]
    assert "Connection refused" in result.failures[0].message
