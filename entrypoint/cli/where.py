"""WHERE: a run, named by the URL of its health endpoints or by its directory."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from entrypoint.outcome import ExitCode, SuperviseError

CONNECT_S = 3.0
TOKEN_VARIABLE = "SUPERVISE_TOKEN"  # noqa: S105  # the name of a variable
STATUS_KEYS = frozenset({"state", "ready", "reasons", "phases", "self_check", "verdict"})
"""What only a run of ours has together in its status."""
READ_S = 10.0


@dataclass(frozen=True, slots=True)
class Run:
    """A run that can be asked.

    Attributes:
        url: Base URL of its health endpoints.
        token: The bearer token, where it wants one and we have it.
        directory: Its directory, when that is how it was named.
    """

    url: str
    token: str | None
    directory: Path | None

    def client(self) -> httpx.Client:
        """Return a client of its health endpoints."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)


def find(where: str, token_file: Path | None) -> Run:
    """Return the run that a word names.

    Raises:
        SuperviseError: It names none.
    """
    token = _token(token_file) if token_file else os.environ.get(TOKEN_VARIABLE)
    if "://" in where:
        return Run(_base_url(where), token, None)
    directory = Path(where)
    try:
        plan: dict[str, Any] = json.loads((directory / "plan.json").read_text(encoding="utf-8"))
        health = plan["settings"]["health"]
        address = f"http://{health_host(plan)}:{health['port']}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SuperviseError(
            f"{where} is neither a URL nor the directory of a run: {_why_none(directory, error)}.",
            remedy="Give http://HOST:PORT of the health endpoints, or a directory below logs.dir that holds plan.json.",
            code=ExitCode.USAGE,
        ) from error
    if token is None and (directory / "token").exists():
        token = _token(directory / "token")
    return Run(address, token, directory)


def _why_none(directory: Path, error: Exception) -> str:
    """Say why a directory cannot be read as a run's."""
    if isinstance(error, FileNotFoundError):
        return "it holds no plan.json" if directory.is_dir() else "there is nothing of this name"
    if isinstance(error, NotADirectoryError):
        return "it is a file"
    if isinstance(error, OSError):
        return f"its plan.json cannot be read ({error.strerror})"
    return "its plan.json was not written by supervise"


def _base_url(where: str) -> str:
    try:
        url = httpx.URL(where)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise SuperviseError(
            f"{where} is not the URL of a run's health endpoints.",
            remedy="Give it as http://HOST:PORT.",
            code=ExitCode.USAGE,
        )
    return where.rstrip("/")


def health_host(plan: dict[str, Any]) -> str:
    """Return the host of a run's health endpoints, as its plan says it."""
    host: str = plan["settings"]["health"]["host"]
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # compared, not bound
        host = plan["host"]
    return f"[{host}]" if ":" in host else host


def ask(run: Run, method: str, path: str) -> httpx.Response:
    """Ask a run; return its answer whatever its status.

    Raises:
        SuperviseError: It cannot be reached, or wants a token.
    """
    try:
        with run.client() as client:
            response = client.request(method, path)
    except httpx.HTTPError as error:
        raise SuperviseError(
            f"{run.url} cannot be reached: {str(error) or type(error).__name__}.",
            remedy="Is the run still going, and is this the host and port of its health endpoints?",
            code=ExitCode.NODE_UNFIT,
        ) from error
    if response.status_code == httpx.codes.UNAUTHORIZED:
        raise SuperviseError(
            f"{run.url}{path} wants the run's token.",
            remedy="Name the run directory, or give --token-file, or set SUPERVISE_TOKEN.",
            code=ExitCode.NOT_PERMITTED,
        )
    return response


def status_of(run: Run) -> dict[str, Any]:
    """Return the whole picture of a run.

    Raises:
        SuperviseError: It cannot be reached, wants a token, or is no run of ours.
    """
    response = ask(run, "GET", "/status")
    try:
        status = response.json()
    except ValueError:
        status = None
    if response.status_code != httpx.codes.OK or not isinstance(status, dict) or not status.keys() >= STATUS_KEYS:
        raise no_run(run, response)
    return status


def no_run(run: Run, response: httpx.Response) -> SuperviseError:
    """Return the error for somebody who does not answer as a run does."""
    return SuperviseError(
        f"{response.url} answers {response.status_code}, and not as the health endpoints of supervise do.",
        remedy=f"Is {run.url} the engine's own address? The health endpoints have a port of their own, health.port.",
        code=ExitCode.USAGE,
    )


def _token(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no text"
        raise SuperviseError(
            f"The token file {path} cannot be read: {reason}.",
            remedy="It lies in the run directory and belongs to whoever started the run.",
            code=ExitCode.NOT_PERMITTED,
        ) from error
