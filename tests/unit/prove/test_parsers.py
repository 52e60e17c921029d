import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from entrypoint.prove import exchange
from entrypoint.prove.parsers import check
from entrypoint.prove.transcript import CheckResult, CheckSpec, ConfiguredParsers, FailureKind

Handler = Callable[[httpx.Request], Any]
Recording = Callable[[str], dict[str, Any]]
Replay = Callable[[Mapping[str, Any]], Handler]
KEY = "correct-horse-battery"


def run(handler: Handler, spec: CheckSpec, configured: ConfiguredParsers | None = None, key: str = KEY) -> CheckResult:
    async def checked() -> CheckResult:
        async with httpx.AsyncClient(
            transport=httpx.MockTransport(handler),
            base_url="http://engine:30000",
            headers={"Authorization": f"Bearer {key}"} if key else {},
        ) as client:
            return await check(client, spec, configured)

    return asyncio.run(checked())


def kinds(result: CheckResult) -> list[FailureKind]:
    return [failure.kind for failure in result.failures]


@pytest.mark.parametrize("name", ["qwen3-right", "kimi_k2-right", "glm-right", "gpt-oss-right"])
def test_a_real_engine_with_the_right_parsers_passes(name: str, recording: Recording, replay: Replay, spec: CheckSpec):
    recorded = recording(name)
    result = run(replay(recorded), spec, ConfiguredParsers.from_model_info(recorded["model_info"]))
    assert result.failures == ()
    assert [exchange.name for exchange in result.exchanges] == ["tool", "tool-stream", "plain", "plain-stream"]


@pytest.mark.parametrize(
    ("name", "remedies"),
    [
        ("qwen3-no-tool-parser", {FailureKind.CALL_AS_TEXT: 'tool_call_parser = "qwen"'}),
        ("qwen3-wrong-tool-parser", {FailureKind.CALL_AS_TEXT: 'tool_call_parser = "qwen"'}),
        ("qwen3-coder-tool-parser", {FailureKind.CALL_SWALLOWED: "qwen, hermes"}),
        ("qwen3-no-reasoning-parser", {FailureKind.THOUGHT_IN_CONTENT: 'reasoning_parser = "qwen3"'}),
        ("qwen3-wrong-reasoning-parser", {FailureKind.THOUGHT_IN_CONTENT: 'reasoning_parser = "qwen3"'}),
        (
            "qwen3-no-parser",
            {
                FailureKind.CALL_AS_TEXT: 'tool_call_parser = "qwen"',
                FailureKind.THOUGHT_IN_CONTENT: 'reasoning_parser = "qwen3"',
            },
        ),
        ("qwen3-no-cache-report", {FailureKind.NO_CACHED_TOKENS: "enable_cache_report = true"}),
        ("kimi_k2-no-tool-parser", {FailureKind.CALL_AS_TEXT: 'tool_call_parser = "kimi_k2"'}),
        (
            "kimi_k2-no-parser",
            {
                FailureKind.CALL_AS_TEXT: 'tool_call_parser = "kimi_k2"',
                FailureKind.THOUGHT_IN_CONTENT: 'reasoning_parser = "kimi_k2"',
            },
        ),
        ("glm-no-tool-parser", {FailureKind.CALL_AS_TEXT: 'tool_call_parser = "glm47"'}),
        ("glm-old-tool-parser", {FailureKind.CALL_SWALLOWED: "glm47"}),
        (
            "glm-no-parser",
            {
                FailureKind.CALL_AS_TEXT: 'tool_call_parser = "glm47"',
                FailureKind.THOUGHT_IN_CONTENT: 'reasoning_parser = "glm45"',
            },
        ),
        ("gpt-oss-no-tool-parser", {FailureKind.CALL_AS_TEXT: 'tool_call_parser = "gpt-oss"'}),
        (
            "gpt-oss-no-reasoning-parser",
            {
                FailureKind.NO_THOUGHT: "engine.reasoning_parser",
                FailureKind.THOUGHT_IN_CONTENT: 'reasoning_parser = "gpt-oss"',
            },
        ),
        (
            "gpt-oss-no-parser",
            {
                FailureKind.CALL_AS_TEXT: 'tool_call_parser = "gpt-oss"',
                FailureKind.THOUGHT_IN_CONTENT: 'reasoning_parser = "gpt-oss"',
            },
        ),
    ],
)
def test_a_real_engine_with_wrong_parsers_fails_with_the_setting_that_would_be_right(
    name: str, remedies: dict[FailureKind, str], recording: Recording, replay: Replay, spec: CheckSpec
):
    recorded = recording(name)
    result = run(replay(recorded), spec, ConfiguredParsers.from_model_info(recorded["model_info"]))
    by_kind = {failure.kind: failure.remedy for failure in result.failures}
    assert by_kind.keys() == remedies.keys(), result.summary()
    for kind, part in remedies.items():
        assert part in by_kind[kind]


def test_a_failure_that_several_requests_show_is_told_once(recording: Recording, replay: Replay, spec: CheckSpec):
    result = run(replay(recording("qwen3-no-tool-parser")), spec)
    assert [failure.exchanges for failure in result.failures] == [("tool", "tool-stream")]


def test_without_tools_only_plain_answers_are_asked_for(recording: Recording, replay: Replay, spec: CheckSpec):
    result = run(replay(recording("qwen3-no-tool-parser")), replace(spec, tools=False))
    assert result.passed
    assert [exchange.name for exchange in result.exchanges] == ["plain", "plain-stream"]


def test_each_pair_of_requests_shares_its_prompt_so_that_the_second_can_hit_the_cache(
    recording: Recording, replay: Replay, spec: CheckSpec
):
    result = run(replay(recording("qwen3-right")), spec)
    prompts = [(exchange.request["messages"], exchange.request.get("tools")) for exchange in result.exchanges]
    assert prompts[0] == prompts[1]
    assert prompts[2] == prompts[3]
    assert prompts[0] != prompts[2]


def refusing(status: int, body: str) -> Handler:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "tiny"}, {"id": "tiny-lora"}]})
        return httpx.Response(status, content=body.encode())

    return handle


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, FailureKind.REJECTED, "rejects the request (400)"),
        (401, FailureKind.UNAUTHORIZED, "refuses the API key that was sent (401)"),
        (403, FailureKind.UNAUTHORIZED, "refuses the API key that was sent (403)"),
        (404, FailureKind.NOT_FOUND, "for the model 'tiny'. It serves: tiny, tiny-lora."),
        (422, FailureKind.REJECTED, "rejects the request (422)"),
        (500, FailureKind.SERVER_ERROR, "failed on the request (500)"),
        (503, FailureKind.SERVER_ERROR, "failed on the request (503)"),
        (302, FailureKind.REJECTED, "rejects the request (302)"),
        (204, FailureKind.REJECTED, "rejects the request (204)"),
    ],
)
def test_a_status_other_than_200_ends_the_check_and_shows_its_body(
    status: int, kind: FailureKind, words: str, spec: CheckSpec
):
    result = run(refusing(status, "the reason"), spec)
    assert kinds(result) == [kind]
    assert words in result.failures[0].message
    assert result.failures[0].evidence == "the reason"
    assert [exchange.status for exchange in result.exchanges] == [status]


def test_a_401_without_a_key_says_that_none_was_sent(spec: CheckSpec):
    result = run(refusing(401, '{"error":"Unauthorized"}'), spec, key="")
    assert "refuses a request without an API key" in result.failures[0].message


def test_a_404_of_a_server_that_lists_nothing_says_so(spec: CheckSpec):
    result = run(lambda _: httpx.Response(404, text="Not Found"), spec)
    assert kinds(result) == [FailureKind.NOT_FOUND]
    assert "Its models are not known: GET /v1/models answered 404" in result.failures[0].message


def test_a_refused_connection_ends_the_check(spec: CheckSpec):
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused")

    result = run(refuse, spec)
    assert kinds(result) == [FailureKind.CONNECTION]
    assert "No connection to http://engine:30000: ConnectError: Connection refused." in result.failures[0].message
    assert [exchange.status for exchange in result.exchanges] == [None]


class Breaking(httpx.AsyncByteStream):
    """A response that breaks after its first bytes."""

    async def __aiter__(self):  # noqa: ANN204 - the base class says it
        yield b'data: {"choices": []}\n'
        raise httpx.ReadError("")


def test_a_connection_that_breaks_shows_what_had_arrived(spec: CheckSpec):
    result = run(lambda _: httpx.Response(200, stream=Breaking()), spec)
    assert kinds(result) == [FailureKind.CONNECTION]
    assert "broke before the answer was complete: ReadError." in result.failures[0].message
    assert result.failures[0].evidence == 'data: {"choices": []}\n'


def test_the_whole_check_has_a_deadline_and_says_what_it_waited_for(
    recording: Recording, replay: Replay, spec: CheckSpec
):
    answer = replay(recording("qwen3-right"))

    async def hang_when_streaming(request: httpx.Request) -> httpx.Response:
        if json.loads(request.content)["stream"]:
            await asyncio.Event().wait()
        response: httpx.Response = answer(request)
        return response

    result = run(hang_when_streaming, replace(spec, timeout_s=0.2))
    assert kinds(result) == [FailureKind.TIMEOUT]
    assert "not done after 0.2 s: the request 'tool-stream' was still waiting" in result.failures[0].message
    assert [exchange.name for exchange in result.exchanges] == ["tool"]


def test_a_login_page_under_status_200_is_not_json(spec: CheckSpec):
    result = run(lambda _: httpx.Response(200, text="<html>"), replace(spec, tools=False))
    assert kinds(result) == [FailureKind.NOT_JSON, FailureKind.STREAM_CUT]


def test_json_that_is_no_completion_is_no_answer(spec: CheckSpec):
    result = run(lambda _: httpx.Response(200, json={"status": "ok"}), replace(spec, tools=False))
    assert kinds(result)[0] is FailureKind.NOT_AN_ANSWER


def test_an_error_event_under_status_200_is_shown(recording: Recording, replay: Replay, spec: CheckSpec):
    answer = replay(recording("qwen3-right"))

    def fail_streams(request: httpx.Request) -> httpx.Response:
        if json.loads(request.content)["stream"]:
            return httpx.Response(200, text='data: {"error": {"message": "out of memory"}}\n\ndata: [DONE]\n\n')
        response: httpx.Response = answer(request)
        return response

    result = run(fail_streams, spec)
    assert kinds(result) == [FailureKind.ERROR_IN_STREAM]
    assert "out of memory" in result.failures[0].evidence
    assert result.failures[0].exchanges == ("tool-stream", "plain-stream")


def test_a_stream_without_its_end_is_cut(recording: Recording, replay: Replay, spec: CheckSpec):
    recorded = recording("qwen3-right")
    for name in ("tool-stream", "plain-stream"):
        recorded["exchanges"][name]["body"] = recorded["exchanges"][name]["body"].replace("data: [DONE]", "")
    assert kinds(run(replay(recorded), spec)) == [FailureKind.STREAM_CUT]


def test_an_endless_answer_is_cut_by_size(monkeypatch: pytest.MonkeyPatch, spec: CheckSpec):
    monkeypatch.setattr(exchange, "MAX_BODY_BYTES", 1 << 20)
    result = run(lambda _: httpx.Response(200, content=b"x" * ((1 << 20) + 1)), spec)
    assert kinds(result) == [FailureKind.TOO_LARGE]
    assert len(result.failures[0].evidence) == 600


def test_the_key_is_nowhere_in_the_transcript_even_if_the_server_repeats_it(spec: CheckSpec):
    result = run(refusing(401, f'{{"error": "bad key {KEY}"}}'), spec)
    assert KEY not in json.dumps(result.to_json()) + result.summary()
    assert "bad key ***" in result.failures[0].evidence


def test_the_transcript_is_json_and_holds_requests_and_answers(recording: Recording, replay: Replay, spec: CheckSpec):
    transcript = json.loads(json.dumps(run(replay(recording("qwen3-right")), spec).to_json()))
    assert transcript["passed"] is True
    assert transcript["failures"] == []
    first = transcript["exchanges"][0]
    assert first["request"]["tools"][0]["function"]["name"] == "get_weather"
    assert first["answer"]["tool_calls"] == [{"name": "get_weather", "arguments": '{"city": "Zurich"}'}]
    assert first["answer"]["cached_tokens"] == 0


def test_the_summary_of_a_pass_is_one_line(recording: Recording, replay: Replay, spec: CheckSpec):
    summary = run(replay(recording("qwen3-right")), spec).summary()
    assert summary.startswith("The self-check passed in ")
    assert summary.endswith("(tool, tool-stream, plain, plain-stream).")


def test_the_summary_of_a_failure_holds_message_remedy_and_evidence(
    recording: Recording, replay: Replay, spec: CheckSpec
):
    summary = run(replay(recording("glm-no-tool-parser")), spec).summary()
    assert "The tool call came as text" in summary
    assert "[tool, tool-stream]" in summary
    assert 'Set engine.tool_call_parser = "glm47"' in summary
    assert "What came instead: '<tool_call>get_weather<arg_key>" in summary


def test_the_summary_shows_no_evidence_where_there_is_none(recording: Recording, replay: Replay, spec: CheckSpec):
    summary = run(replay(recording("qwen3-no-cache-report")), spec).summary()
    assert "cached_tokens is missing. [tool, tool-stream, plain, plain-stream]" in summary
    assert "What came instead" not in summary


def test_parsers_are_read_from_the_engine_s_model_info(recording: Recording):
    info = recording("qwen3-no-tool-parser")["model_info"]
    assert ConfiguredParsers.from_model_info(info) == ConfiguredParsers(reasoning="qwen3", tool_call=None)
    assert ConfiguredParsers.from_model_info({"model_path": "x"}) is None
