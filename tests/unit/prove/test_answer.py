import json
from collections.abc import Callable
from typing import Any

import pytest

from entrypoint.prove.answer import Answer, NoAnswer, ToolCall, Unreadable, events, read_body, read_stream

Recording = Callable[[str], dict[str, Any]]


def body(message: dict[str, Any], **more: Any) -> str:
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], **more})


def stream(*chunks: dict[str, Any] | str) -> str:
    return "".join(f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n" for chunk in chunks)


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": None}]}


@pytest.mark.parametrize("kind", ["tool", "plain"])
def test_a_recorded_answer_reads_the_same_streamed_or_not(recording: Recording, kind: str):
    exchanges = recording("qwen3-right")["exchanges"]
    whole, streamed = read_body(exchanges[kind]["body"]), read_stream(exchanges[f"{kind}-stream"]["body"])
    assert isinstance(whole, Answer)
    assert isinstance(streamed, Answer)
    assert whole.calls == streamed.calls
    assert (whole.reasoning, whole.finish_reason) == (streamed.reasoning, streamed.finish_reason)
    assert whole.content.strip() == streamed.content.strip()


def test_pieces_of_two_parallel_calls_are_put_together_by_index():
    def piece(index: int, name: str | None, arguments: str) -> dict[str, Any]:
        return {"index": index, "function": {"name": name, "arguments": arguments}}

    text = stream(
        delta(tool_calls=[piece(0, "a", "{"), piece(1, "b", "[")]),
        delta(tool_calls=[piece(1, None, "]")]),
        delta(tool_calls=[piece(0, None, "}")]),
        "[DONE]",
    )
    answer = read_stream(text)
    assert isinstance(answer, Answer)
    assert answer.calls == (ToolCall("a", "{}"), ToolCall("b", "[]"))


def test_the_thought_may_be_called_reasoning():
    answer = read_body(body({"content": "Hi", "reasoning": "hm", "reasoning_content": None}))
    assert isinstance(answer, Answer)
    assert answer.reasoning == "hm"


def test_usage_without_details_counts_no_cached_tokens():
    answer = read_body(body({"content": "Hi"}, usage={"completion_tokens": 3, "prompt_tokens_details": None}))
    assert isinstance(answer, Answer)
    assert answer.usage is not None
    assert answer.usage.cached_tokens is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<html>login</html>", Unreadable.NOT_JSON),
        ("", Unreadable.NOT_JSON),
        ("[]", Unreadable.SHAPE),
        ('{"choices": []}', Unreadable.SHAPE),
        ('{"status": "ok"}', Unreadable.SHAPE),
        ('{"error": {"message": "no"}}', Unreadable.ERROR),
        ('{"object": "error", "message": "no", "code": 400}', Unreadable.ERROR),
    ],
)
def test_a_body_that_is_no_answer_says_why(text: str, reason: Unreadable):
    answer = read_body(text)
    assert isinstance(answer, NoAnswer)
    assert answer.reason is reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (stream(delta(content="Hel")), Unreadable.CUT),
        ("", Unreadable.CUT),
        (stream(delta(content="Hel"), {"error": {"message": "out of memory"}}, "[DONE]"), Unreadable.ERROR),
        (stream("oops", "[DONE]"), Unreadable.NOT_JSON),
        (stream({"status": "ok"}, "[DONE]"), Unreadable.SHAPE),
    ],
)
def test_a_stream_that_is_no_answer_says_why(text: str, reason: Unreadable):
    answer = read_stream(text)
    assert isinstance(answer, NoAnswer)
    assert answer.reason is reason


def test_a_stream_is_complete_with_its_closing_event():
    answer = read_stream(stream(delta(content="Hel"), delta(content="lo"), "[DONE]"))
    assert isinstance(answer, Answer)
    assert answer.content == "Hello"


def test_events_end_at_newlines_only_and_comments_are_passed_over():
    assert list(events(': ping\r\ndata:{"a": "x\u2028y"}\r\n\r\nevent: end\ndata: [DONE]')) == [
        '{"a": "x\u2028y"}',
        "[DONE]",
    ]


@pytest.mark.parametrize(("name", "cut"), [("short", 1), ("short_after_thought", 0), ("plain", 0)])
def test_an_answer_cut_inside_its_thought_is_told_from_one_cut_after_it(recording: Recording, name: str, cut: int):
    answer = read_body(recording("qwen3-right")["exchanges"][name]["body"])
    assert isinstance(answer, Answer)
    assert answer.cut_while_thinking == bool(cut)


def test_without_counted_thoughts_an_answer_of_nothing_but_thought_counts_as_cut_inside_it():
    text = json.dumps({"choices": [{"message": {"reasoning": "hm"}, "finish_reason": "length"}]})
    answer = read_body(text)
    assert isinstance(answer, Answer)
    assert answer.cut_while_thinking
