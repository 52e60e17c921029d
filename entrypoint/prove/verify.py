"""The self-check against any OpenAI-compatible server, by its URL."""

import time
from collections.abc import Callable

import httpx

from entrypoint.engine.client import EngineClient, Fault, Unavailable, open_http
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.prove.parsers import check
from entrypoint.prove.transcript import (
    CheckResult,
    CheckSpec,
    ConfiguredParsers,
    Failure,
    FailureKind,
    concealed,
)


async def verify(
    url: str,
    *,
    api_key: str | None = None,
    model: str | None = None,
    tools: bool = True,
    reasoning: bool = True,
    cached_tokens: bool | None = None,
    max_tokens: int = 2048,
    timeout_s: float = 900,
    clock: Callable[[], float] = time.monotonic,
    connect: Callable[..., httpx.AsyncClient] = open_http,
) -> CheckResult:
    """Check a running server.

    Args:
        url: The server's URL, with or without ``/v1``.
        api_key: The key that it wants, if any.
        model: The name to ask for; by default the first that the server lists.
        tools: Require tool calls.
        reasoning: Require the thought apart from the answer.
        cached_tokens: Require the count of cached tokens; by default only of SGLang, which is recognised by its
            ``/model_info``.
        max_tokens: Answer budget of each request.
        timeout_s: Time for all requests together.
        clock: Monotonic seconds.
        connect: Makes the HTTP client of a base URL and an ``api_key``.

    Raises:
        SuperviseError: When the URL is none.
    """
    async with connect(server_url(url), api_key=api_key) as http:
        engine = EngineClient(http)
        name = model or await _first_model(engine)
        if isinstance(name, Failure):
            return CheckResult(concealed((name,), api_key), (), 0.0)
        info = await engine.model_info()
        spec = CheckSpec(
            model=name,
            tools=tools,
            reasoning=reasoning,
            max_tokens=max_tokens,
            timeout_s=timeout_s,
            cached_tokens=not isinstance(info, Unavailable) if cached_tokens is None else cached_tokens,
        )
        configured = None if isinstance(info, Unavailable) else ConfiguredParsers.from_model_info(info)
        return await check(http, spec, configured, clock=clock)


def server_url(url: str) -> str:
    """Return a server's base URL: without ``/v1``, with a scheme.

    Raises:
        SuperviseError: When the text is no HTTP URL.
    """
    text = url.strip() if "://" in url else f"http://{url.strip()}"
    try:
        parsed = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise _not_a_url(url) from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise _not_a_url(url)
    path = parsed.path.rstrip("/").removesuffix("/v1")
    return str(parsed.copy_with(path=path or "/", query=None, fragment=None)).rstrip("/")


def _not_a_url(url: str) -> SuperviseError:
    return SuperviseError(
        f"{url!r} is not the URL of a server.",
        remedy="Give it as http://HOST:PORT, with or without /v1.",
        code=ExitCode.USAGE,
    )


_NAME_IT = "See that the URL is that of the server, or name the model with --model."
_UNLISTED = {
    Fault.ABSENT: (FailureKind.NO_MODEL, _NAME_IT),
    Fault.DENIED: (FailureKind.UNAUTHORIZED, "Give the server's API key."),
    Fault.UNREACHABLE: (FailureKind.CONNECTION, "See whether the server runs and listens there."),
    Fault.ERROR: (FailureKind.SERVER_ERROR, "Read the server's log at this time."),
    Fault.NONSENSE: (FailureKind.NO_MODEL, _NAME_IT),
}


async def _first_model(engine: EngineClient) -> str | Failure:
    names = await engine.models()
    if isinstance(names, Unavailable):
        kind, remedy = _UNLISTED[names.fault]
        return Failure(kind, f"The server does not list its models: {names.detail}", remedy, "")
    if not names:
        message = "The server lists no models, and none was named."
        return Failure(FailureKind.NO_MODEL, message, "Name the model with --model.", "")
    return names[0]
