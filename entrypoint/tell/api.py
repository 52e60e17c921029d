"""The health endpoints: answered from memory, in the supervisor's own loop.

``/livez``, ``/readyz``, ``/health`` and ``/metrics`` are open. What shows settings or logs, or changes anything, wants
the run's token when the endpoints are reachable beyond loopback.
"""

import contextlib
import hmac
from collections.abc import Callable, Iterator

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from entrypoint.tell.board import Board
from entrypoint.tell.metrics import registry_of

JSON = "application/json"


class Api:
    """The endpoints over one board.

    Args:
        board: What is shown.
        token: What a caller must send as a bearer token; None where everybody who reaches the port may do everything.
        drain: Called when a client asks for the end.
        prove_again: Called when a client asks for another self-check; returns whether one will run.
    """

    def __init__(
        self, board: Board, *, token: str | None, drain: Callable[[], None], prove_again: Callable[[], bool]
    ) -> None:
        self._board = board
        self._token = token
        self._drain = drain
        self._prove_again = prove_again
        self._registry: CollectorRegistry = registry_of(board)

    def application(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/livez", self.livez),
                Route("/readyz", self.readyz),
                Route("/health", self.readyz),
                Route("/status", self.status),
                Route("/metrics", self.metrics),
                Route("/drain", self.drain, methods=["POST"]),
                Route("/prove", self.prove, methods=["POST"]),
            ]
        )

    async def livez(self, _: Request) -> Response:
        """Answer 200: this loop turns."""
        return Response(b'{"live": true}', media_type=JSON)

    async def readyz(self, _: Request) -> Response:
        """Answer 200 when clients should send requests, else 503, with the reasons."""
        return Response(self._board.readyz, status_code=200 if self._board.ready else 503, media_type=JSON)

    async def status(self, request: Request) -> Response:
        """Answer with the whole picture."""
        return self._forbidden(request) or JSONResponse(self._board.status())

    async def metrics(self, _: Request) -> Response:
        """Answer in Prometheus' text format."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def drain(self, request: Request) -> Response:
        """Begin to drain; answer 202 at once."""
        refusal = self._forbidden(request)
        if refusal:
            return refusal
        self._drain()
        return JSONResponse({"draining": True}, status_code=202)

    async def prove(self, request: Request) -> Response:
        """Run the self-check of a held server again; answer 202, or 409 where there is nothing to prove."""
        refusal = self._forbidden(request)
        if refusal:
            return refusal
        if self._prove_again():
            return JSONResponse({"proving": True}, status_code=202)
        return JSONResponse(
            {"proving": False, "state": self._board.state, "reason": "only a held server is proven again"},
            status_code=409,
        )

    def _forbidden(self, request: Request) -> Response | None:
        """Return the refusal for a caller without the token, else None."""
        if self._token is None:
            return None
        given = request.headers.get("authorization", "")
        if hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            return None
        return JSONResponse(
            {"error": "this wants the run's token: Authorization: Bearer <the token file of the run directory>"},
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )


class HealthServer(uvicorn.Server):
    """Uvicorn without its signal handlers: signals are the supervisor's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave all signals alone."""
        yield


def health_server(application: Starlette, *, host: str, port: int) -> HealthServer:
    """Return a server for the endpoints that writes no log of its own."""
    return HealthServer(
        uvicorn.Config(
            application,
            host=host,
            port=port,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
    )
