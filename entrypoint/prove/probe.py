"""The self-check's four requests: with and without a tool, streamed and not."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

TOOL_NAME: Final = "get_weather"
TOOL: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "type": "function",
        "function": {
            "name": TOOL_NAME,
            "description": "Get the current weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Name of the city, such as Zurich."}},
                "required": ["city"],
            },
        },
    }
)
TOOL_QUESTION: Final = "What is the weather in Zurich right now? Call get_weather."
PLAIN_QUESTION: Final = "Hello, please answer: what is 17 times 3?"


@dataclass(frozen=True, slots=True)
class Probe:
    """One request of the self-check.

    Attributes:
        name: How reports call it.
        body: The JSON that is posted to ``/v1/chat/completions``.
    """

    name: str
    body: Mapping[str, Any]

    @property
    def with_tool(self) -> bool:
        """Whether the request offers the tool."""
        return "tools" in self.body

    @property
    def streamed(self) -> bool:
        """Whether the answer comes as a stream of events."""
        return bool(self.body["stream"])


def probes(*, model: str, tools: bool, max_tokens: int) -> tuple[Probe, ...]:
    """Return the requests in their order: each pair shares its prompt, so the second can use the first's cache."""
    plain = _pair("plain", PLAIN_QUESTION, {"model": model, "max_tokens": max_tokens})
    if not tools:
        return plain
    offer = {"model": model, "max_tokens": max_tokens, "tools": [dict(TOOL)], "tool_choice": "auto"}
    return (*_pair("tool", TOOL_QUESTION, offer), *plain)


def arguments_problem(arguments: str) -> str | None:
    """Say how a call's arguments miss the tool's schema, or return None when they fit.

    Args:
        arguments: The JSON text of ``function.arguments``.
    """
    try:
        value = json.loads(arguments)
    except ValueError as error:
        return f"they are not JSON ({error})"
    if not isinstance(value, dict):
        return "they are no JSON object"
    if "city" not in value:
        return "the required key 'city' is missing"
    if not isinstance(value["city"], str):
        return "'city' is no string"
    return None


def _pair(name: str, question: str, common: Mapping[str, Any]) -> tuple[Probe, Probe]:
    body = {**common, "messages": [{"role": "user", "content": question}], "temperature": 0}
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    return Probe(name, {**body, "stream": False}), Probe(f"{name}-stream", {**body, **stream})
