"""``supervise verify``: the self-check against any running server."""

import asyncio
import json
import os
import sys
import time
from dataclasses import replace
from typing import Any

import httpx

from entrypoint.cli.parse import Call
from entrypoint.cli.where import TOKEN_VARIABLE, Run, ask, status_of
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.prove.transcript import CheckResult
from entrypoint.prove.verify import verify

LOOK_S = 0.5


def perform(call: Call) -> int:
    """Prove a server; return 0, or 76 when tool calls or reasoning do not work."""
    held = _held_run(call.options.url)
    if held is not None:
        return _prove_again(held, call)
    options = call.options
    result = asyncio.run(
        verify(
            options.url,
            api_key=_api_key(call),
            model=options.model,
            tools=not options.no_tools,
            reasoning=not options.no_reasoning,
            max_tokens=options.max_tokens,
            timeout_s=options.timeout,
        )
    )
    return _tell(call, result)


def _tell(call: Call, result: CheckResult) -> int:
    text = json.dumps(result.to_json(), indent=2) if call.options.format == "json" else result.summary()
    sys.stdout.write(text + "\n")
    return 0 if result.passed else int(ExitCode.SELF_CHECK_FAILED)


def _api_key(call: Call) -> str | None:
    path = call.options.api_key_file
    if path is None:
        return os.environ.get("OPENAI_API_KEY") or None
    try:
        key: str = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SuperviseError(
            f"The key file {path} cannot be read: {error.strerror}.",
            remedy="Give a file that holds the server's key.",
            code=ExitCode.USAGE,
        ) from error
    return key


def _held_run(url: str) -> Run | None:
    """Return the run whose health endpoints a URL names, if it names any: our own answer carries a state."""
    stranger = Run(url.rstrip("/"), None, None)  # who gets the token is known only after it has answered
    try:
        with stranger.client() as client:
            answer = client.get("/readyz").json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    ours = isinstance(answer, dict) and answer.keys() >= {"state", "ready", "reasons"}
    return replace(stranger, token=os.environ.get(TOKEN_VARIABLE)) if ours else None


def _prove_again(run: Run, call: Call) -> int:
    """Have a held run prove itself again, and tell what came of it."""
    before = status_of(run)["self_check"]
    if ask(run, "POST", "/prove").status_code == httpx.codes.ACCEPTED:
        check = _wait_for_check(run, before, call.options.timeout)
    else:
        check = _last_check(run)
    sys.stdout.write(json.dumps(check, indent=2) + "\n")
    return 0 if check["passed"] else int(ExitCode.SELF_CHECK_FAILED)


def _last_check(run: Run) -> dict[str, Any]:
    """Return the last self-check of a run that has nothing to prove now."""
    status = status_of(run)
    if status["self_check"] is None:
        raise SuperviseError(
            f"{run.url} has not proven anything yet; it is {status['state']}.",
            remedy="Wait until it is ready, or name the engine's own URL.",
            code=ExitCode.SELF_CHECK_FAILED,
        )
    check: dict[str, Any] = status["self_check"]
    return check


def _wait_for_check(run: Run, before: dict[str, Any] | None, timeout_s: float) -> dict[str, Any]:
    """Return the first self-check that is another one than before."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        check: dict[str, Any] | None = status_of(run)["self_check"]
        if check is not None and check != before:
            return check
        time.sleep(LOOK_S)
    raise SuperviseError(
        f"{run.url} did not finish its self-check within {timeout_s:g} s.",
        remedy="Give a longer --timeout.",
        code=ExitCode.SELF_CHECK_FAILED,
    )
