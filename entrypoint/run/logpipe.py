"""The log pipe: the engine's output is read, masked, understood and written, and the engine never waits for it."""

import fcntl
import os
import re
import select
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from entrypoint.engine.log import LogFact, LogScanner
from entrypoint.run.logfile import FileSink, LogWriter, Sink
from entrypoint.settings.redaction import Masker, StreamMasker

READ_BYTES = 1 << 18
QUEUE_BYTES = 8 << 20
"""How much may wait for the disk: a minute of a very talkative engine."""
TAIL_LINES = 200
TAIL_LINE_BYTES = 4096
"""How much of a line the tail keeps."""
SETTLED_MS = 200
"""Milliseconds without output after which a line without an end is looked at."""

# A second bracket is the line of another process that came in between, and must not be lost with the bar.
_BAR_STATE = re.compile(rb"(?P<label>[^\d:(%\[]*)(?=[\d:(])[^%\[]*(?<=\d)%[^\[]*\[[^\[\]]*\][ ]*")


class LogPipe:
    """Reads the output of one engine in a thread of its own.

    Args:
        read_fd: Read end of the pipe; closed at its end.
        path: The log file; its directory exists.
        masker: Removes secrets, from the file, the facts and the tail alike.
        on_facts: Told what the log says; called in the reader's thread and must not block.
        on_lines: Given all complete lines, likewise.
        max_bytes: Size at which the file is set aside as ``<name>.1``.
        queue_bytes: How much may wait for the disk before lines are left out of the file.
        sink: Where the lines go instead of the file.
    """

    def __init__(
        self,
        read_fd: int,
        path: Path,
        *,
        masker: Masker,
        on_facts: Callable[[list[LogFact]], None],
        on_lines: Callable[[bytes], None] | None = None,
        max_bytes: int = 1 << 30,
        queue_bytes: int = QUEUE_BYTES,
        sink: Sink | None = None,
    ) -> None:
        self.path = path
        self._read_fd = read_fd
        self._on_facts = on_facts
        self._on_lines = on_lines
        self._stream = StreamMasker(masker)
        self._scanner = LogScanner()
        self._writer = LogWriter(sink or FileSink(path, max_bytes=max_bytes), queue_bytes=queue_bytes)
        self._tail: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._tail_lock = threading.Lock()
        self._callback_error: Exception | None = None
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopping = False
        self._waiting: list[Callable[[], None]] = []
        self._ended = False
        self._requests_lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)
        self._poll.register(self._wake_fd, select.POLLIN)
        self._reader = threading.Thread(target=self._run, name="log-reader", daemon=True)

    @property
    def dropped_lines(self) -> int:
        """Lines that did not reach the disk."""
        return self._writer.dropped_lines

    @property
    def last_write_error(self) -> str | None:
        """Why lines could not be written, the last time; None when that never happened."""
        return self._writer.last_error

    @property
    def callback_error(self) -> Exception | None:
        """What went wrong when facts were told, the last time; reading goes on, or the engine would block."""
        return self._callback_error

    def tail(self) -> tuple[str, ...]:
        """Return the last lines, masked."""
        with self._tail_lock:
            lines = tuple(self._tail)
        return tuple(line.decode("utf-8", "replace") for line in lines)

    def start(self) -> None:
        """Start reading and writing."""
        self._writer.start()
        self._reader.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the output; return whether it has been read."""
        self._reader.join(timeout_s)
        return not self._reader.is_alive()

    def close(self, timeout_s: float = 2.0) -> bool:
        """Read what is left and write it out, each in bounded time.

        Whoever still holds the pipe's other end gets a broken pipe from then on.

        Args:
            timeout_s: Longest wait for the end of the output, and again for the disk.

        Returns:
            Whether everything was read to its end, and written or counted as dropped in time.
        """
        complete = self.join(timeout_s)
        if not complete:
            with self._requests_lock:
                self._stopping = True
            self._wake()
        if complete or self.join(timeout_s):
            self._release_wake_fd()
        return self._writer.close(timeout_s) and complete

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call back once everything that is in the pipe now has been read and its facts have been told.

        Called back in the reader's thread, or here at once where reading has ended; callbacks keep their order and must
        not block.
        """
        with self._requests_lock:
            self._waiting.append(callback)
            if not self._ended:
                self._wake()
                return
        self._call_waiting()

    def _wake(self) -> None:
        if self._wake_fd >= 0:
            os.eventfd_write(self._wake_fd, 1)

    def _release_wake_fd(self) -> None:
        wake_fd, self._wake_fd = self._wake_fd, -1
        if wake_fd >= 0:
            os.close(wake_fd)

    def _run(self) -> None:
        try:
            while data := self._read():
                self._take(self._stream.feed(data))
            self._take(self._stream.flush())
        finally:
            os.close(self._read_fd)
            with self._requests_lock:
                self._ended = True
            self._call_waiting()

    def _read(self) -> bytes:
        """Wait for output, look at an unfinished line meanwhile; return nothing at the end."""
        while True:
            ready = dict(self._poll.poll(SETTLED_MS if self._stream.has_pending else None))
            if not ready:
                self._look_at_unfinished()
                ready = dict(self._poll.poll())
            if self._wake_fd in ready:
                os.eventfd_read(self._wake_fd)
                self._catch_up()
                if self._stopping:
                    return b""
            elif ready:
                return os.read(self._read_fd, READ_BYTES)

    def _catch_up(self) -> None:
        """Read what lies in the pipe, never more than it can hold: a flood must not keep those who wait."""
        with self._requests_lock:
            if not self._waiting:
                return
        left = fcntl.fcntl(self._read_fd, fcntl.F_GETPIPE_SZ)
        while left > 0 and _readable(self._read_fd):
            data = os.read(self._read_fd, READ_BYTES)
            if not data:
                break
            left -= len(data)
            self._take(self._stream.feed(data))
        self._look_at_unfinished()
        self._call_waiting()

    def _call_waiting(self) -> None:
        with self._requests_lock:  # also while they are called, or one that comes now could be called before them
            for callback in self._waiting:
                callback()
            self._waiting.clear()

    def _look_at_unfinished(self) -> None:
        if self._stream.has_pending:
            self._tell(self._scanner.peek(self._stream.peek()))

    def _take(self, lines: bytes) -> None:
        if not lines:
            return
        self._tell(self._scanner.scan(lines))
        self._show(lines)
        shown = collapse_bars(lines)
        if shown:
            self._remember(shown)
            self._writer.offer(shown)

    def _tell(self, facts: list[LogFact]) -> None:
        if not facts:
            return
        try:
            self._on_facts(facts)
        except Exception as error:  # noqa: BLE001 - a pipe that nobody reads blocks the engine; the error is kept
            self._callback_error = error

    def _show(self, lines: bytes) -> None:
        if self._on_lines is None:
            return
        try:
            self._on_lines(lines)
        except Exception as error:  # noqa: BLE001 - as above
            self._callback_error = error

    def _remember(self, lines: bytes) -> None:
        last = lines[:-1].rsplit(b"\n", TAIL_LINES)[-TAIL_LINES:]
        with self._tail_lock:
            self._tail.extend(line[:TAIL_LINE_BYTES] for line in last)


def _readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def collapse_bars(lines: bytes) -> bytes:
    r"""Return lines that all end with ``\n``, of each bar that is redrawn only the last state.

    Args:
        lines: Complete lines, each ended by ``\n`` or ``\r``.
    """
    if b"\r" not in lines:
        return lines
    *rows, rest = lines.replace(b"\r\n", b"\n").split(b"\n")
    if rest:
        rows.append(rest)
    return b"".join(line + b"\n" for row in rows for line in _left_of(row))


def _left_of(row: bytes) -> list[bytes]:
    """Return what a row says in the end: texts that were not redrawn, and each bar's last state."""
    if b"\r" not in row:
        return [row]
    left: list[bytes] = []
    bar_before: bytes | None = None
    for state in filter(None, row.split(b"\r")):
        match = _BAR_STATE.fullmatch(state)
        bar = match["label"] if match else None
        if bar is not None and bar == bar_before:
            left.pop()
        left.append(state)
        bar_before = bar
    return left
