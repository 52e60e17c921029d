import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from entrypoint.prove.transcript import CheckSpec

RECORDINGS = Path(__file__).parents[2] / "data" / "prove"
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def recording() -> Callable[[str], dict[str, Any]]:
    """Read what a real engine answered; the name says how its parsers were set."""

    def read(name: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
        return data

    return read


@pytest.fixture
def spec() -> CheckSpec:
    return CheckSpec(model="tiny", tools=True, reasoning=True, max_tokens=512, timeout_s=5, cached_tokens=True)


@pytest.fixture
def replay() -> Callable[[Mapping[str, Any]], Handler]:
    """Answer the self-check's requests, and the engine's own endpoints, with a recording."""

    def handler_of(recorded: Mapping[str, Any]) -> Handler:
        def handle(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/v1/models":
                return httpx.Response(200, json={"object": "list", "data": [{"id": "tiny"}]})
            if request.url.path == "/model_info":
                return httpx.Response(200, json=recorded["model_info"])
            body = json.loads(request.content)
            name = ("tool" if "tools" in body else "plain") + ("-stream" if body["stream"] else "")
            exchange = recorded["exchanges"][name]
            return httpx.Response(
                exchange["status"],
                headers={"content-type": exchange["content_type"]},
                content=exchange["body"].encode(),
            )

        return handle

    return handler_of
