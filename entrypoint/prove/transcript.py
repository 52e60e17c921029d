"""What a self-check asked, what came back, and what was wrong with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

EVIDENCE_CHARACTERS = 600
"""How much of an answer is shown: enough for a whole tool call in any syntax, short enough for a report."""
CONCEALED = "***"


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """What a server has to show.

    Attributes:
        model: Name that requests use.
        tools: Require tool calls.
        reasoning: Require the thought apart from the answer.
        max_tokens: Answer budget of each request.
        timeout_s: Time for all requests together.
        cached_tokens: Require the count of cached prompt tokens in each answer's usage.
    """

    model: str
    tools: bool
    reasoning: bool
    max_tokens: int
    timeout_s: float
    cached_tokens: bool


@dataclass(frozen=True, slots=True)
class ConfiguredParsers:
    """The parsers that the server says it uses; None is a parser that is not set."""

    reasoning: str | None
    tool_call: str | None

    @classmethod
    def from_model_info(cls, info: Mapping[str, Any]) -> "ConfiguredParsers | None":
        """Read them from SGLang's ``/model_info``; None when it does not speak of parsers, as older engines."""
        if "reasoning_parser" not in info or "tool_call_parser" not in info:
            return None
        reasoning, tool_call = info["reasoning_parser"], info["tool_call_parser"]
        return cls(
            reasoning=reasoning if isinstance(reasoning, str) else None,
            tool_call=tool_call if isinstance(tool_call, str) else None,
        )


class FailureKind(StrEnum):
    """What can be wrong with a server that loads."""

    CONNECTION = "connection"
    """No connection, or it broke before the answer was complete."""
    TIMEOUT = "timeout"
    """The check's time was over."""
    UNAUTHORIZED = "unauthorized"
    """The server wants another key."""
    NOT_FOUND = "not-found"
    """The server knows neither this model name nor, perhaps, this path."""
    REJECTED = "rejected"
    """The server refuses the request otherwise."""
    SERVER_ERROR = "server-error"
    """The server fails on the request."""
    TOO_LARGE = "too-large"
    """The answer does not end within a sane size."""
    NOT_JSON = "not-json"
    """The answer is no JSON."""
    NOT_AN_ANSWER = "not-an-answer"
    """The answer is JSON, but no chat completion."""
    ERROR_IN_STREAM = "error-in-stream"
    """Status 200, and an error where the answer should be."""
    STREAM_CUT = "stream-cut"
    """The stream ended without its closing event."""
    BUDGET = "budget"
    """The token budget ended before the answer did."""
    CALL_AS_TEXT = "call-as-text"
    """The call is in the content, not in tool_calls."""
    CALL_IN_THOUGHT = "call-in-thought"
    """The call is in the thought, not in tool_calls."""
    CALL_SWALLOWED = "call-swallowed"
    """Tokens were generated, but neither a call nor a text arrived."""
    NO_CALL = "no-call"
    """The model answered without a call."""
    CALL_TWICE = "call-twice"
    """The call is in tool_calls and its markup is in the content as well."""
    WRONG_FUNCTION = "wrong-function"
    """The call names another function than the one offered."""
    WRONG_ARGUMENTS = "wrong-arguments"
    """The call's arguments do not fit the tool's schema."""
    WRONG_FINISH = "wrong-finish"
    """The call is there, but finish_reason does not say tool_calls."""
    THOUGHT_IN_CONTENT = "thought-in-content"
    """The content holds the thought."""
    NO_THOUGHT = "no-thought"
    """There is no thought anywhere."""
    EMPTY_ANSWER = "empty-answer"
    """The content of a plain answer is empty."""
    NO_CACHED_TOKENS = "no-cached-tokens"
    """The usage does not say how many prompt tokens came from the cache."""
    NO_MODEL = "no-model"
    """No model was named, and the server lists none."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is wrong.

    Attributes:
        kind: Stable identifier.
        message: What is wrong, in one sentence.
        remedy: What to do, in one sentence.
        evidence: What came instead, cut to `EVIDENCE_CHARACTERS`.
        exchanges: Names of the requests that showed it.
    """

    kind: FailureKind
    message: str
    remedy: str
    evidence: str
    exchanges: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the failure as JSON data."""
        return {
            "kind": self.kind.value,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": self.evidence,
            "exchanges": list(self.exchanges),
        }


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came of it.

    Attributes:
        name: Which of the requests.
        request: The JSON that was posted; headers, and so the key, are not kept.
        status: HTTP status, or None when there was no response.
        answer: Summary of the answer, or None when there was none to read.
        seconds: From sending to the answer's end.
    """

    name: str
    request: Mapping[str, Any]
    status: int | None
    answer: Mapping[str, Any] | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the exchange as JSON data."""
        return {
            "name": self.name,
            "request": dict(self.request),
            "status": self.status,
            "answer": None if self.answer is None else dict(self.answer),
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of a self-check."""

    failures: tuple[Failure, ...]
    exchanges: tuple[Exchange, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        """Return the transcript as JSON data; it holds no key."""
        return {
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "failures": [failure.to_json() for failure in self.failures],
            "exchanges": [exchange.to_json() for exchange in self.exchanges],
        }

    def summary(self) -> str:
        """Return the outcome for people: one line when it passed, a paragraph for each failure else."""
        if self.passed:
            names = ", ".join(exchange.name for exchange in self.exchanges)
            return f"The self-check passed in {self.seconds:.1f} s ({names})."
        head = f"The self-check failed after {self.seconds:.1f} s."
        return "\n".join([head, *(_paragraph(failure) for failure in self.failures)])


def merged(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """Return each failure once, with the names of all the requests that showed it and the first one's evidence."""
    first: dict[tuple[FailureKind, str], Failure] = {}
    for failure in failures:
        key = (failure.kind, failure.message)
        known = first.get(key)
        if known is None:
            first[key] = failure
        else:
            names = known.exchanges + failure.exchanges
            first[key] = Failure(known.kind, known.message, known.remedy, known.evidence, names)
    return tuple(first.values())


def concealed(failures: Iterable[Failure], secret: str | None) -> tuple[Failure, ...]:
    """Return the failures without a secret, should a server have repeated it in its answer."""
    if not secret:
        return tuple(failures)
    return tuple(
        replace(
            failure,
            message=failure.message.replace(secret, CONCEALED),
            evidence=failure.evidence.replace(secret, CONCEALED),
        )
        for failure in failures
    )


def _paragraph(failure: Failure) -> str:
    where = f" [{', '.join(failure.exchanges)}]" if failure.exchanges else ""
    lines = [f"- {failure.message}{where}", f"  {failure.remedy}"]
    if failure.evidence:
        lines.append(f"  What came instead: {failure.evidence!r}")
    return "\n".join(lines)
