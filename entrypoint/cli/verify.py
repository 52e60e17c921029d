"""``supervise verify``: the self-check against any running server."""

import asyncio
import json
import os
import sys
import time

import httpx

from entrypoint.cli.parse import Call
from entrypoint.cli.where import Run, ask
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
    run = Run(url.rstrip("/"), os.environ.get("SUPERVISE_TOKEN"), None)
    try:
        with run.client() as client:
            answer = client.get("/readyz").json()
    except (httpx.HTTPError, ValueError):
        return None
    return run if isinstance(answer, dict) and "state" in answer else None


def _prove_again(run: Run, call: Call) -> int:
    """Have a held run prove itself again, and tell what came of it."""
    asked_at = time.time()
    answer = ask(run, "POST", "/prove")
    if answer.status_code == httpx.codes.CONFLICT:
        check = ask(run, "GET", "/status").json()["self_check"]
        if check is None:
            raise SuperviseError(
                f"{run.url} has not proven anything yet; it is {answer.json()['state']}.",
                remedy="Wait until it is ready, or name the engine's own URL.",
                code=ExitCode.SELF_CHECK_FAILED,
            )
    else:
        check = _wait_for_check(run, asked_at, call.options.timeout)
    sys.stdout.write(json.dumps(check, indent=2) + "\n")
    return 0 if check["passed"] else int(ExitCode.SELF_CHECK_FAILED)


def _wait_for_check(run: Run, asked_at: float, timeout_s: float) -> dict[str, object]:
    while time.time() < asked_at + timeout_s:
        check = ask(run, "GET", "/status").json()["self_check"]
        if check is not None and check["unix_s"] >= asked_at:
            found: dict[str, object] = check
            return found
        time.sleep(LOOK_S)
    raise SuperviseError(
        f"{run.url} did not finish its self-check within {timeout_s:g} s.",
        remedy="Give a longer --timeout.",
        code=ExitCode.SELF_CHECK_FAILED,
    )
