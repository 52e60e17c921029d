"""One request of the self-check over HTTP, and what a refusal means."""

from dataclasses import dataclass
from http import HTTPStatus

import httpx

from entrypoint.engine.client import EngineClient, Unavailable, describe
from entrypoint.prove.answer import Answer, NoAnswer, Unreadable, read_body, read_stream
from entrypoint.prove.probe import Probe
from entrypoint.prove.transcript import EVIDENCE_CHARACTERS, Failure, FailureKind

PATH = "/v1/chat/completions"
CONNECT_TIMEOUT_S = 10.0
MAX_BODY_BYTES = 64 << 20
"""More than a hundred thousand streamed tokens; a server that sends more is not answering the question."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back over HTTP."""

    status: int
    text: str


async def post(client: httpx.AsyncClient, probe: Probe) -> Reply | Failure:
    """Send a request and collect the whole reply, or say how the connection failed.

    Reading has no timeout of its own: a model may think for minutes before its first token, and the check as a whole
    has a deadline.
    """
    received = bytearray()
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    try:
        async with client.stream("POST", PATH, json=dict(probe.body), timeout=timeout) as response:
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > MAX_BODY_BYTES:
                    return _too_large(probe, bytes(received[:EVIDENCE_CHARACTERS]))
            return Reply(response.status_code, _text(received))
    except httpx.ConnectError as error:
        return Failure(
            FailureKind.CONNECTION,
            f"No connection to {client.base_url}: {describe(error)}.",
            "See whether the server still runs and listens there; its log says why not.",
            "",
            (probe.name,),
        )
    except httpx.HTTPError as error:
        return Failure(
            FailureKind.CONNECTION,
            f"The connection to {client.base_url} broke before the answer was complete: {describe(error)}.",
            "See whether the server still runs: its log says why it hung up.",
            _text(received)[-EVIDENCE_CHARACTERS:],
            (probe.name,),
        )


def read(probe: Probe, reply: Reply) -> Answer | Failure:
    """Read the answer of a reply with status 200, or say why there is none in it."""
    answer = read_stream(reply.text) if probe.streamed else read_body(reply.text)
    return _unreadable(probe, answer) if isinstance(answer, NoAnswer) else answer


async def refusal(client: httpx.AsyncClient, probe: Probe, reply: Reply) -> Failure:
    """Say what a status other than 200 means; after a 404 the server is asked for the names that it knows."""
    kind, message, remedy = await _meaning(client, probe, reply)
    return Failure(kind, message, remedy, reply.text[:EVIDENCE_CHARACTERS], (probe.name,))


async def _meaning(client: httpx.AsyncClient, probe: Probe, reply: Reply) -> tuple[FailureKind, str, str]:
    status = reply.status
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        sent = "the API key that was sent" if "Authorization" in client.headers else "a request without an API key"
        return (
            FailureKind.UNAUTHORIZED,
            f"The server refuses {sent} ({status}).",
            "Give the server's key: engine.api_key_file, or --api-key-file of the command.",
        )
    if status == HTTPStatus.NOT_FOUND:
        names = await EngineClient(client).models()
        return (
            FailureKind.NOT_FOUND,
            f"The server answers 404 to {PATH} for the model {probe.body['model']!r}. {_known(names)}",
            "Name a model that the server lists (model.served_name), and see that the URL is that of the server.",
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return (
            FailureKind.SERVER_ERROR,
            f"The server failed on the request ({status}).",
            "Read the server's log at this time: the traceback is there.",
        )
    return (
        FailureKind.REJECTED,
        f"The server rejects the request ({status}).",
        "Read its reason below.",
    )


def _known(names: tuple[str, ...] | Unavailable) -> str:
    if isinstance(names, Unavailable):
        return f"Its models are not known: {names.detail}"
    return f"It serves: {', '.join(names)}." if names else "It lists no models."


def _too_large(probe: Probe, start: bytes) -> Failure:
    return Failure(
        FailureKind.TOO_LARGE,
        f"The answer is larger than {MAX_BODY_BYTES >> 20} MiB and was cut.",
        "See whether the URL is that of a chat completion server.",
        _text(start),
        (probe.name,),
    )


_UNREADABLE = {
    Unreadable.NOT_JSON: (
        FailureKind.NOT_JSON,
        "The server answers 200 with something that is not JSON.",
        "See whether the URL is that of the server itself, not of a proxy or a login page before it.",
    ),
    Unreadable.SHAPE: (
        FailureKind.NOT_AN_ANSWER,
        "The server answers 200 with JSON that is no chat completion.",
        "See whether the URL is that of an OpenAI-compatible server.",
    ),
    Unreadable.ERROR: (
        FailureKind.ERROR_IN_STREAM,
        "The server answers 200 and then reports an error.",
        "Read its reason below and in the server's log at this time.",
    ),
    Unreadable.CUT: (
        FailureKind.STREAM_CUT,
        "The stream ended without its closing [DONE]: the answer is incomplete.",
        "See whether the server, or a proxy before it, ended the connection: its log says why.",
    ),
}


def _unreadable(probe: Probe, answer: NoAnswer) -> Failure:
    kind, message, remedy = _UNREADABLE[answer.reason]
    return Failure(kind, message, remedy, answer.detail[:EVIDENCE_CHARACTERS], (probe.name,))


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")
