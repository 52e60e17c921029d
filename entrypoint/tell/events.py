"""Events: what happened, once as a line of JSON in the run directory and once on stderr for whoever watches.

Writing happens in a thread behind a bounded queue, since a log on a hung file system must not stop the supervisor.
"""

import logging
import queue
import sys
import threading
import time
from collections.abc import MutableMapping
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import Any, Literal, TextIO

import structlog

from entrypoint.settings.redaction import Masker

QUEUED_EVENTS = 10_000
FLUSH_S = 2.0
"""Seconds that writing what is queued may take at the end."""

EventDict = MutableMapping[str, Any]


class _DroppingQueueHandler(QueueHandler):
    """Hands records to the writer thread; when the queue is full it counts and goes on."""

    dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave the record as it is: it is rendered in the writer thread."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record without ever waiting."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class EventLog:
    """Where a run tells what happens.

    Args:
        path: The JSON lines file; None writes none.
        stream: Where people or log collectors watch.
        style: ``console`` for people, ``json`` for machines, ``auto`` by whether the stream is a terminal.
        masker: Removes secrets from everything that is told.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        stream: TextIO = sys.stderr,
        style: Literal["auto", "json", "console"] = "auto",
        masker: Masker,
    ) -> None:
        self._masker = masker
        console = style == "console" or (style == "auto" and stream.isatty())
        handlers: list[logging.Handler] = [_handler(logging.StreamHandler(stream), _Console() if console else _JSON)]
        if path is not None:
            path.touch(mode=0o600)
            handlers.append(_handler(logging.FileHandler(path, encoding="utf-8"), _JSON))
        self._queue_handler = _DroppingQueueHandler(queue.Queue(QUEUED_EVENTS))
        self._listener = QueueListener(self._queue_handler.queue, *handlers)
        self._handlers = handlers
        self._listener.start()
        # Not one of the global loggers: two runs in one process, as in tests, must not share handlers.
        logger = logging.Logger("supervise", level=logging.DEBUG)  # noqa: LOG001
        logger.addHandler(self._queue_handler)
        self._log: structlog.BoundLogger = structlog.wrap_logger(
            logger,
            processors=[
                structlog.stdlib.add_log_level,
                _timestamp,
                self._mask,
                structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
            ],
            wrapper_class=structlog.BoundLogger,
        )

    @property
    def dropped(self) -> int:
        """Number of events that were lost because nothing could be written."""
        return self._queue_handler.dropped

    def tell(self, event: str, **details: Any) -> None:
        """Tell that something happened.

        Args:
            event: Its name, in kebab case.
            details: What belongs to it.
        """
        self._log.info(event, **details)

    def warn(self, event: str, **details: Any) -> None:
        """Tell that something happened that somebody should look at."""
        self._log.warning(event, **details)

    def error(self, event: str, **details: Any) -> None:
        """Tell that something failed."""
        self._log.error(event, **details)

    def close(self) -> None:
        """Write what is queued, for a bounded time."""
        flusher = threading.Thread(target=self._listener.stop, daemon=True)
        flusher.start()
        flusher.join(FLUSH_S)
        if not flusher.is_alive():
            for handler in self._handlers:
                handler.close()

    def _mask(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        return {key: self._masker.mask_value(value) for key, value in event.items()}


def _handler(handler: logging.Handler, renderer: Any) -> logging.Handler:
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    return handler


def _timestamp(_logger: Any, _method: str, event: EventDict) -> EventDict:
    now = time.time()
    return {"time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"), **event}


def _plain(value: Any) -> str:
    return str(value)


_JSON = structlog.processors.JSONRenderer(default=_plain)


class _Console:
    """Renders an event as one line for people: clock, what happened, details; a block of text follows below."""

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> str:
        at = datetime.fromisoformat(event.pop("time")).astimezone().strftime("%H:%M:%S")
        sign = {"warning": "! ", "error": "!! "}.get(event.pop("level"), "")
        name, block = event.pop("event"), event.pop("block", "")
        render = _LINES.get(name)
        line = f"{at}  {sign}" + (render(event) if render else _plain_line(name, event))
        return f"{line.rstrip()}\n{block}" if block else line.rstrip()


def _state_line(event: EventDict) -> str:
    lasted_s = event["before_lasted_s"]
    took = "" if lasted_s is None else f"{event['before']} took {lasted_s:.1f} s"
    return f"{event['state']:<14}  {took}"


def _end_lines(event: EventDict) -> str:
    notes = "".join(f"\n  {note}" for note in event["notes"])
    remedy = f"\n  What to do: {event['remedy']}" if event["remedy"] else ""
    return f"ended with exit code {event['code']}\n  {event['summary']}{remedy}{notes}\n  Report: {event['report']}"


def _check_lines(event: EventDict) -> str:
    return str(event["summary"])


_LINES = {"state": _state_line, "ended": _end_lines, "self-check": _check_lines}
"""Events whose details read better in another form than as a list."""


def _plain_line(name: str, event: EventDict) -> str:
    details = "  ".join(f"{key}={_short(value)}" for key, value in event.items() if value not in (None, "", ()))
    return f"{name:<14}  {details}"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
