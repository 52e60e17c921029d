"""The endpoint file: where clients reach the server, there exactly while they may come."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from entrypoint.tell.events import EventLog
from entrypoint.tell.files import write_private_json


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How clients reach a server.

    Attributes:
        url: Base URL of the OpenAI-compatible API, with ``/v1``.
        model: Name that requests use.
        health_url: Base URL of the health endpoints.
        api_key: Key that clients must send, or None.
    """

    url: str
    model: str
    health_url: str
    api_key: str | None


class EndpointFile:
    """Publishes an endpoint as ``endpoint.json`` in the run directory, readable by its owner only.

    Args:
        path: The file.
        endpoint: What it says.
        events: Where a failure to write is told: the server serves on without it.
        describe: Returns what people on a terminal are shown.
    """

    def __init__(self, path: Path, endpoint: Endpoint, events: EventLog, describe: Callable[[], str]) -> None:
        self.path = path
        self.endpoint = endpoint
        self._events = events
        self._describe = describe

    def announce(self) -> None:
        """Write the file and tell the URL."""
        endpoint = self.endpoint
        try:
            write_private_json(
                self.path,
                {
                    "url": endpoint.url,
                    "model": endpoint.model,
                    "health_url": endpoint.health_url,
                    "api_key": endpoint.api_key,
                },
            )
        except OSError as error:
            self._events.error("endpoint-unwritten", path=str(self.path), reason=str(error))
        self._events.tell("serving", url=endpoint.url, model=endpoint.model, block=self._describe())

    def withdraw(self) -> None:
        """Remove the file."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            self._events.error("endpoint-left", path=str(self.path), reason=str(error))
