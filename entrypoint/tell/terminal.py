"""What people see when a server is ready: where it is, a line to try, and where the time went."""

import json
import shlex
from collections.abc import Sequence

from entrypoint.tell.board import Phase
from entrypoint.tell.endpoint import Endpoint

WEATHER_REQUEST = {
    "messages": [{"role": "user", "content": "what is the weather in Zurich right now ?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Get the weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                },
            },
        }
    ],
}


def curl_line(endpoint: Endpoint) -> str:
    """Return a command that asks the server for a tool call; a key is taken from OPENAI_API_KEY, never shown."""
    key = ' -H "Authorization: Bearer $OPENAI_API_KEY"' if endpoint.api_key else ""
    body = shlex.quote(json.dumps({"model": endpoint.model, **WEATHER_REQUEST}))
    url = shlex.quote(f"{endpoint.url}/chat/completions")
    return f"curl -s {url} -H 'Content-Type: application/json'{key} -d {body}"


def ready_text(endpoint: Endpoint, phases: Sequence[Phase]) -> str:
    """Return the lines for a terminal.

    Args:
        endpoint: How clients reach the server.
        phases: The phases so far with their durations.
    """
    took = [f"  {phase.name:<12} {phase.lasted_s:7.1f} s" for phase in phases if phase.lasted_s is not None]
    total_s = sum(phase.lasted_s or 0.0 for phase in phases)
    return "\n".join(
        [
            "",
            f"  Serving {endpoint.model} at {endpoint.url}",
            f"  Health  {endpoint.health_url}/status",
            "",
            "  Try it:",
            f"  {curl_line(endpoint)}",
            "",
            *took,
            f"  {'total':<12} {total_s:7.1f} s",
            "",
        ]
    )
