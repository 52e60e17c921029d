"""Events: what happened, once as a line of JSON in the run directory and once on stderr for whoever watches.

Writing happens in a thread behind a bounded queue, since a log on a hung file system must not stop the supervisor.
"""

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from functools import partial
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import Any, Literal, TextIO

import structlog

from entrypoint.readable import shortened
from entrypoint.settings.redaction import Masker
from entrypoint.tell.files import PRIVATE_FILE

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


class _Writer(logging.Handler):
    """Writes lines past Python's own buffers: their locks, held by a write that hangs, would hang Python's end as well.

    Args:
        write: Writes a text.
    """

    lost = 0

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def createLock(self) -> None:  # noqa: N802  # the name is logging's
        """Go without a lock: there is one writer thread, and logging waits for locks when Python ends."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it as lost: there is nowhere else to tell that."""
        try:
            text = self.format(record) + "\n"
        except Exception:  # noqa: BLE001  # what is wrong with one line must not end all later ones
            self.handleError(record)
            return
        try:
            self._write(text)
        except (OSError, ValueError):  # ValueError: the stream is closed
            self.lost += 1


class _Listener(QueueListener):
    """The writer thread."""

    def __init__(self, records: queue.Queue[Any], *writers: _Writer) -> None:
        super().__init__(records, *writers)
        self._records = records

    def enqueue_sentinel(self) -> None:
        """Ask the thread to end after what is queued, waiting for a place in the queue."""
        self._records.put(None)


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
        self._writers = [_writer(_write_to(stream), _Console() if console else _JSON)]
        self._file, unwritable = _open(path)
        if self._file is not None:
            self._writers.append(_writer(partial(_write_all, self._file), _JSON))
        records: queue.Queue[Any] = queue.Queue(QUEUED_EVENTS)
        self._queue_handler = _DroppingQueueHandler(records)
        self._listener = _Listener(records, *self._writers)
        self._listener.start()
        self._flusher: threading.Thread | None = None
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
        if unwritable is not None:
            self.error("events-unwritten", path=str(path), reason=unwritable)

    @property
    def dropped(self) -> int:
        """Number of lines that were lost because they could not be written, or not in time."""
        return self._queue_handler.dropped + sum(writer.lost for writer in self._writers)

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
        if self._flusher is None:
            self._flusher = threading.Thread(target=self._listener.stop, daemon=True)
            self._flusher.start()
        self._flusher.join(FLUSH_S)
        if not self._flusher.is_alive() and self._file is not None:
            os.close(self._file)
            self._file = None

    def _mask(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        return {key: self._masker.mask_value(value) for key, value in event.items()}


def _open(path: Path | None) -> tuple[int | None, str | None]:
    """Return a file that lines are added to, or why it cannot be written: the run goes on without it."""
    if path is None:
        return None, None
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE), None
    except OSError as error:
        return None, error.strerror


def _write_to(stream: TextIO) -> Callable[[str], object]:
    """Return how to write to a stream: to the file below it, where there is one."""
    try:
        return partial(_write_all, stream.fileno())
    except (OSError, AttributeError):  # a stream of a test, or none at all
        return stream.write


def _write_all(descriptor: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(descriptor, data) :]


def _writer(write: Callable[[str], object], renderer: Any) -> _Writer:
    handler = _Writer(write)
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
        line = f"{at}  {sign}" + shortened(render(event) if render else _plain_line(name, event))
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


def _finding_lines(event: EventDict) -> str:
    return f"{event['severity']:<14}  {event['message']} ({event['rule']})\n  What to do: {event['remedy']}"


_LINES = {"state": _state_line, "ended": _end_lines, "self-check": _check_lines, "finding": _finding_lines}
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
