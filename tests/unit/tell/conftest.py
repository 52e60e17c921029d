import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from entrypoint.settings.redaction import Masker
from entrypoint.tell.events import EventLog


@pytest.fixture
def stream() -> io.StringIO:
    """Where somebody watches."""
    return io.StringIO()


@pytest.fixture
def open_log(stream: io.StringIO) -> Iterator[Callable[..., EventLog]]:
    """Return a function that opens an event log which masks ``s3cret-key``."""
    opened: list[EventLog] = []

    def start(
        path: Path | None = None, *, to: io.TextIOBase = stream, style: Literal["auto", "json", "console"] = "console"
    ) -> EventLog:
        log = EventLog(path, stream=to, style=style, masker=Masker(["s3cret-key"]))
        opened.append(log)
        return log

    yield start
    for log in opened:
        log.close()
