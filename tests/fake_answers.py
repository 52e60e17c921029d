"""What the tiny qwen3 model says, in the shapes of SGLang 0.5.23's chat completions."""

import argparse
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fake_switches import Switches

THOUGHT = ("\n", "The", " user", " asks", ".", "\n")
ANSWER = ("\n", "\n", "Hello", " from", " the", " tiny", " model", ".")
TOOL_NAME = "get_weather"
ARGUMENTS = ('{"', "city", '": "', "Z", "u", "ri", "c", 'h"}')
CALL_MARKUP = (
    *("\n", "\n", "<tool_call>", "\n"),
    '{"name": "get_weather", "arguments": ',
    *ARGUMENTS,
    *("}", "\n", "</tool_call>"),
)


class RefusedError(Exception):
    """A request that the engine answers with 400; the message is the real one's."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in pieces of about a token.

    Args:
        thought: What goes to reasoning_content.
        content: What goes to content.
        arguments: What a tool call's arguments are; empty without a call.
        finish_reason: Why it ended.
        prompt_tokens: Length of the prompt, about.
    """

    thought: tuple[str, ...]
    content: tuple[str, ...]
    arguments: tuple[str, ...]
    finish_reason: str
    prompt_tokens: int

    def usage(self) -> dict[str, Any]:
        """Return the record of tokens, with cached ones as --enable-cache-report has it."""
        said = len(self.thought) + len(self.content) + len(self.arguments)
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + said,
            "completion_tokens": said,
            "prompt_tokens_details": {"cached_tokens": 0},
            "reasoning_tokens": len(self.thought),
            "completion_tokens_details": {"reasoning_tokens": len(self.thought)},
        }


def answer_to(request: dict[str, Any], arguments: argparse.Namespace, switches: Switches) -> Answer:
    """Make the answer to a chat request: one call when tools are offered, else a sentence; a thought first.

    Without its parser a thought or a call stays in the content, and nothing else tells.

    Raises:
        RefusedError: The request is one that the engine refuses.
    """
    check(request)
    offered = bool(request.get("tools")) and request.get("tool_choice") != "none"
    parsed = offered and bool(arguments.tool_call_parser) and not switches.calls_as_text
    content: tuple[str, ...] = () if parsed else CALL_MARKUP if offered else ANSWER
    thought = THOUGHT if switches.thinks else ()
    if thought and not arguments.reasoning_parser:
        content, thought = ("<think>", *thought, "</think>", *content), ()
    most = request.get("max_completion_tokens") or request.get("max_tokens") or 10**6
    whole = Answer(thought, content, ARGUMENTS if parsed else (), "tool_calls" if parsed else "stop", 29)
    return whole if whole.usage()["completion_tokens"] <= most else cut(whole, most)


def cut(answer: Answer, tokens_most: int) -> Answer:
    """Return an answer that ran into its limit of tokens."""
    thought = answer.thought[:tokens_most]
    content = answer.content[: tokens_most - len(thought)]
    return Answer(thought, content, (), "length", answer.prompt_tokens)


def check(request: dict[str, Any]) -> None:
    """Refuse what the engine refuses."""
    if not request.get("messages"):
        raise RefusedError("Messages cannot be empty.")
    tools, choice = request.get("tools") or [], request.get("tool_choice", "auto")
    if choice == "required" and not tools:
        raise RefusedError("Tools cannot be empty if tool choice is set to required.")
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        if name not in [tool["function"]["name"] for tool in tools]:
            raise RefusedError(f"Tool '{name}' not found in tools list.")


def completion(request_id: str, model: str, answer: Answer) -> dict[str, Any]:
    """Return a whole chat completion."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(answer.content),
        "reasoning_content": "".join(answer.thought) or None,
    }
    if answer.arguments:
        call = {"id": call_id(), "index": 0, "type": "function"}
        message["tool_calls"] = [call | {"function": {"name": TOOL_NAME, "arguments": "".join(answer.arguments)}}]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": answer.finish_reason,
        "matched_stop": 2 if answer.finish_reason == "stop" else None,
    }
    head = {"id": request_id, "object": "chat.completion", "created": int(time.time()), "model": model}
    return head | {"choices": [choice], "usage": answer.usage(), "metadata": {"weight_version": "default"}}


def chunks(request_id: str, model: str, answer: Answer, *, usage: bool) -> list[dict[str, Any]]:
    """Return the events of a streamed chat completion."""
    head = {"id": request_id, "object": "chat.completion.chunk", "created": int(time.time()), "model": model}
    events = [head | {"choices": [choice]} for choice in choices(answer)]
    return [*events, head | {"choices": [], "usage": answer.usage()}] if usage else events


def choices(answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield the choice of each event: first the role, then thought, content and call, last the reason of the end."""
    yield choice_of({"reasoning_content": None, "role": "assistant", "content": ""})
    for piece in answer.thought:
        yield choice_of({"reasoning_content": piece})
    for piece in answer.content:
        yield choice_of({"reasoning_content": None, "content": piece})
    for number, piece in enumerate(("", *answer.arguments) if answer.arguments else ()):
        named = {"id": call_id(), "name": TOOL_NAME} if number == 0 else {"id": None, "name": None}
        function = {"name": named["name"], "arguments": piece}
        call = {"id": named["id"], "index": 0, "type": "function", "function": function}
        yield choice_of({"role": None, "content": None, "reasoning_content": None, "tool_calls": [call]})
    yield choice_of({"reasoning_content": None}, finish_reason=answer.finish_reason)


def choice_of(delta: dict[str, Any], *, finish_reason: str | None = None) -> dict[str, Any]:
    """Return one event's choice."""
    stop = 2 if finish_reason in ("stop", "tool_calls") else None
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason, "matched_stop": stop}


def call_id() -> str:
    """Return a tool call's id."""
    return f"call_{uuid.uuid4().hex[:24]}"


def generated(request_id: str) -> dict[str, Any]:
    """Return the answer of /generate."""
    meta = {"id": request_id, "finish_reason": {"type": "length", "length": 4}, "prompt_tokens": 4}
    return {"text": json.dumps("tiny"), "output_ids": [223, 4, 28, 223], "meta_info": meta | {"completion_tokens": 4}}
