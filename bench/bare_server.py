"""A bare uvicorn with one route, as little as a Python server can do; configured as the health endpoints are."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

Message = MutableMapping[str, Any]

BODY = b'{"ready": false, "state": "loading", "reasons": ["loading"]}'
HEADERS = [(b"content-length", str(len(BODY)).encode()), (b"content-type", b"application/json")]


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer /readyz with a constant."""
    del receive
    status = 200 if scope["path"] == "/readyz" else 404
    await send({"type": "http.response.start", "status": status, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


if __name__ == "__main__":
    config = uvicorn.Config(
        application,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
    )
    asyncio.run(uvicorn.Server(config).serve())
