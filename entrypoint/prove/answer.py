"""What a chat completion says, read the same from one JSON body and from a stream of events."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field, ValidationError

STREAM_END = "[DONE]"


class Unreadable(StrEnum):
    """Why a body under status 200 is no answer."""

    NOT_JSON = "not-json"
    SHAPE = "shape"
    """JSON, but no chat completion."""
    ERROR = "error"
    """The server reports an error in the body or in an event."""
    CUT = "cut"
    """The stream ended without its closing ``[DONE]``."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A body that holds no answer.

    Attributes:
        reason: Which kind.
        detail: The part of it that tells, or what the reader missed.
    """

    reason: Unreadable
    detail: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function, its arguments still JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer; None where the server does not count."""

    completion_tokens: int | None
    reasoning_tokens: int | None
    cached_tokens: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A chat completion's first choice.

    Attributes:
        content: The text for the user, empty when there is none.
        reasoning: The thought that the server split off, empty when it did not.
        calls: Tool calls in their order.
        finish_reason: Why the model stopped.
        usage: Token counts, when the server sent any.
    """

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish_reason: str | None
    usage: Usage | None

    @property
    def cut_while_thinking(self) -> bool:
        """Whether the token budget ended before anything but a thought was said."""
        if self.finish_reason != "length" or self.content.strip() or self.calls:
            return False
        counts = self.usage
        if counts is None or not counts.reasoning_tokens or counts.completion_tokens is None:
            return bool(self.reasoning)
        # The token that closes a thought is counted on either side, so one token of difference proves nothing.
        return counts.completion_tokens - counts.reasoning_tokens <= 1

    def to_json(self, limit: int) -> dict[str, Any]:
        """Return the answer as JSON data, texts cut to a limit in characters."""
        usage = self.usage
        return {
            "content": self.content[:limit],
            "reasoning": self.reasoning[:limit],
            "tool_calls": [{"name": call.name, "arguments": call.arguments[:limit]} for call in self.calls],
            "finish_reason": self.finish_reason,
            "completion_tokens": usage and usage.completion_tokens,
            "cached_tokens": usage and usage.cached_tokens,
        }


class _Function(BaseModel):
    name: str | None = None
    arguments: str | None = None


class _Call(BaseModel):
    index: int | None = None
    function: _Function


class _Message(BaseModel):
    """A whole message or a delta of one; newer vLLM calls the thought ``reasoning``."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Details(BaseModel):
    cached_tokens: int | None = None


class _CompletionDetails(BaseModel):
    reasoning_tokens: int | None = None


class _Usage(BaseModel):
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _CompletionDetails | None = None

    def read(self) -> Usage:
        prompt, completion = self.prompt_tokens_details, self.completion_tokens_details
        return Usage(
            completion_tokens=self.completion_tokens,
            reasoning_tokens=completion.reasoning_tokens if completion else None,
            cached_tokens=prompt.cached_tokens if prompt else None,
        )


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class _DeltaChoice(BaseModel):
    delta: _Message
    finish_reason: str | None = None


class _Chunk(BaseModel):
    choices: list[_DeltaChoice]
    usage: _Usage | None = None


class _Error(BaseModel):
    """How servers say in a body or an event that the request failed; ``object`` tells SGLang's flat form."""

    error: Any = None
    object: str | None = None


def read_body(text: str) -> Answer | NoAnswer:
    """Read a chat completion that was not streamed."""
    try:
        completion = _Completion.model_validate_json(text)
    except ValidationError as error:
        return _no_answer(text, error)
    choice = completion.choices[0]
    assembly = _Assembly()
    assembly.add(choice.message)
    return assembly.answer(choice.finish_reason, completion.usage)


def read_stream(text: str) -> Answer | NoAnswer:
    """Read a streamed chat completion from the whole text of its events."""
    assembly = _Assembly()
    finish_reason: str | None = None
    usage: _Usage | None = None
    for event in events(text):
        if event == STREAM_END:
            return assembly.answer(finish_reason, usage)
        try:
            chunk = _Chunk.model_validate_json(event)
        except ValidationError as error:
            return _no_answer(event, error)
        usage = chunk.usage or usage
        for choice in chunk.choices[:1]:
            assembly.add(choice.delta)
            finish_reason = choice.finish_reason or finish_reason
    return NoAnswer(Unreadable.CUT, text[-_TAIL_CHARACTERS:])


def events(text: str) -> Iterator[str]:
    """Yield the data of each server-sent event.

    Chat completion servers put one JSON document on one ``data:`` line; comments and other fields carry nothing.
    Lines end at newlines only: JSON text may hold other characters that Unicode counts as line ends.
    """
    for line in text.split("\n"):
        field, colon, value = line.rstrip("\r").partition(":")
        if colon and field == "data":
            yield value.removeprefix(" ")


_TAIL_CHARACTERS = 600


class _Assembly:
    """Collects the pieces of one message."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, tuple[str, str]] = {}

    def add(self, message: _Message) -> None:
        self.content.append(message.content or "")
        self.reasoning.append(message.reasoning_content or message.reasoning or "")
        self.add_calls(message.tool_calls or ())

    def add_calls(self, calls: Iterable[_Call]) -> None:
        for position, call in enumerate(calls):
            index = position if call.index is None else call.index
            name, arguments = self.calls.get(index, ("", ""))
            self.calls[index] = (name + (call.function.name or ""), arguments + (call.function.arguments or ""))

    def answer(self, finish_reason: str | None, usage: _Usage | None) -> Answer:
        return Answer(
            content="".join(self.content),
            reasoning="".join(self.reasoning),
            calls=tuple(ToolCall(*self.calls[index]) for index in sorted(self.calls)),
            finish_reason=finish_reason,
            usage=usage.read() if usage else None,
        )


def _no_answer(text: str, error: ValidationError) -> NoAnswer:
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return NoAnswer(Unreadable.NOT_JSON, text)
    if _is_error(text):
        return NoAnswer(Unreadable.ERROR, text)
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return NoAnswer(Unreadable.SHAPE, f"{where}: {first['msg']}; {text}")


def _is_error(text: str) -> bool:
    try:
        body = _Error.model_validate_json(text)
    except ValidationError:
        return False
    return body.error is not None or body.object == "error"
