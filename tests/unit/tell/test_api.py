"""The health endpoints: who may ask what, and what is answered."""

import asyncio
import hmac
import json
import signal
from collections.abc import Callable
from unittest.mock import Mock

import httpx
import pytest

from entrypoint.tell.api import Api, health_server
from entrypoint.tell.board import Board

TOKEN = "s3cret-token"
OPEN = ["/livez", "/readyz", "/health", "/metrics"]
CLOSED = [("GET", "/status"), ("POST", "/drain"), ("POST", "/prove")]


@pytest.fixture
def board() -> Board:
    return Board(about={"model": "tiny"})


@pytest.fixture
def drain() -> Mock:
    return Mock()


@pytest.fixture
def ask(board: Board, drain: Mock) -> Callable[..., httpx.Response]:
    """Ask the endpoints, without a network in between."""

    def perform(
        method: str, path: str, *, token: str | None = None, sent: str | None = None, provable: bool = False
    ) -> httpx.Response:
        api = Api(board, token=token, drain=drain, prove_again=lambda: provable)
        headers = {} if sent is None else {"Authorization": sent.encode("latin-1")}

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(api.application())
            async with httpx.AsyncClient(transport=transport, base_url="http://run") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(asked())

    return perform


Ask = Callable[..., httpx.Response]


def test_livez_is_always_200(ask: Ask):
    assert (ask("GET", "/livez").status_code, ask("GET", "/livez").json()) == (200, {"live": True})


@pytest.mark.parametrize("path", ["/readyz", "/health"])
def test_readyz_is_503_with_the_reason_until_ready_and_200_then(ask: Ask, board: Board, path: str):
    board.enter("loading", ready=False, reasons=("loading",), now=0.0)
    before = ask("GET", path)
    assert (before.status_code, before.json()["reasons"]) == (503, ["loading"])
    board.enter("ready", ready=True, reasons=(), now=1.0)
    after = ask("GET", path)
    assert (after.status_code, after.json()) == (200, {"ready": True, "state": "ready", "reasons": []})


def test_a_degraded_server_is_ready_with_a_reason(ask: Ask, board: Board):
    board.enter("degraded", ready=True, reasons=("the canary failed",), now=1.0)
    answer = ask("GET", "/readyz")
    assert (answer.status_code, answer.json()["reasons"]) == (200, ["the canary failed"])


def test_status_is_the_board(ask: Ask, board: Board):
    assert ask("GET", "/status").json() == json.loads(json.dumps(board.status()))


def test_metrics_are_prometheus_text(ask: Ask):
    answer = ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "supervise_ready 0.0" in answer.text


def test_drain_is_asked_once_and_answered_at_once(ask: Ask, drain: Mock):
    answer = ask("POST", "/drain")
    assert (answer.status_code, answer.json()) == (202, {"draining": True})
    drain.assert_called_once_with()


def test_prove_is_202_where_there_is_something_to_prove_and_409_where_not(ask: Ask):
    assert ask("POST", "/prove", provable=True).status_code == 202
    refused = ask("POST", "/prove", provable=False)
    assert refused.status_code == 409
    assert refused.json()["state"] == "planned"


# The token


@pytest.mark.parametrize(("method", "path"), CLOSED)
@pytest.mark.parametrize(
    "sent", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"]
)
def test_what_shows_or_changes_something_wants_the_token(
    ask: Ask, drain: Mock, method: str, path: str, sent: str | None
):
    answer = ask(method, path, token=TOKEN, sent=sent, provable=True)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text
    drain.assert_not_called()


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_with_the_token_everything_is_allowed(ask: Ask, method: str, path: str):
    answer = ask(method, path, token=TOKEN, sent=f"Bearer {TOKEN}", provable=True)
    assert answer.status_code in {200, 202}


@pytest.mark.parametrize("path", OPEN)
def test_what_probes_ask_for_is_open(ask: Ask, path: str):
    assert ask("GET", path, token=TOKEN).status_code in {200, 503}


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_without_a_token_of_its_own_a_run_wants_none(ask: Ask, method: str, path: str):
    assert ask(method, path, sent="Bearer whatever", provable=True).status_code in {200, 202}


def test_the_token_is_compared_in_constant_time(ask: Ask, monkeypatch: pytest.MonkeyPatch):
    compare = Mock(side_effect=hmac.compare_digest)
    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert ask("GET", "/status", token=TOKEN, sent="Bearer x").status_code == 401
    compare.assert_called_once_with(b"Bearer x", f"Bearer {TOKEN}".encode())


# What is not there


@pytest.mark.parametrize("path", ["/", "/v1/models", "/readyz/x", "/STATUS"])
def test_other_paths_are_404(ask: Ask, path: str):
    assert ask("GET", path).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/drain"), ("GET", "/prove"), ("POST", "/status"), ("POST", "/livez"), ("PUT", "/drain")],
)
def test_other_methods_are_405_and_change_nothing(ask: Ask, drain: Mock, method: str, path: str):
    assert ask(method, path).status_code == 405
    drain.assert_not_called()


def test_a_head_request_is_answered_as_a_get_is(ask: Ask):
    assert ask("HEAD", "/readyz").status_code == 503


def test_the_server_leaves_signals_alone(board: Board, drain: Mock):
    api = Api(board, token=None, drain=drain, prove_again=lambda: False)
    server = health_server(api.application(), host="127.0.0.1", port=1)
    before = signal.getsignal(signal.SIGTERM)
    with server.capture_signals():
        assert signal.getsignal(signal.SIGTERM) is before
