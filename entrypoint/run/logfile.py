"""The log file: a bounded queue, a thread that writes it out, and a file that is set aside when it is full.

Whoever hands over lines never waits for the disk. What does not fit into the queue or cannot be written is lost
to the file, counted, and the file says so where it happened.
"""

import os
import threading
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

TOO_SLOW = "the disk was too slow"


class Sink(Protocol):
    """Where log lines go."""

    def write(self, data: bytes) -> int:
        """Write data, return how many bytes were taken.

        Raises:
            OSError: Nothing could be written.
        """

    def close(self) -> None:
        """Let go of what was opened."""


class FileSink:
    """A log file of bounded size, opened anew after every error: a handle that went stale stays so.

    Args:
        path: The file; created with mode 0600, a symbolic link is refused. Its directory exists.
        max_bytes: Size at which the file is renamed to ``<name>.1``, replacing the one before, and begun anew.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._fd: int | None = None
        self._size_bytes = 0
        self._at_line_start = True

    def write(self, data: bytes) -> int:
        """Append data, return how many bytes were taken.

        Raises:
            OSError: Nothing could be written.
        """
        try:
            fd = self._open()
            if self._size_bytes + len(data) > self._max_bytes and self._at_line_start:
                fd = self._set_aside(fd)
            taken = os.write(fd, data)
        except OSError:
            self.close()
            raise
        self._size_bytes += taken
        self._at_line_start = data.endswith(b"\n", 0, taken)
        return taken

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o600)
            self._size_bytes = os.fstat(self._fd).st_size
        return self._fd

    def _set_aside(self, fd: int) -> int:
        """Begin the file anew, unless it is empty; return the descriptor to write to."""
        if not self._size_bytes:
            return fd
        self.close()
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        return self._open()


class _Block(NamedTuple):
    """Lines that wait to be written.

    Attributes:
        lines: The lines; empty when only the mark is left to be written.
        lost_before: Lines that came before them and did not fit into the queue.
    """

    lines: bytes
    lost_before: int


def mark_in_words(count: int, reason: str) -> bytes:
    """Return the line that stands for lines that were lost."""
    return f"[supervise] {count} lines were not written: {reason}\n".encode()


class LogWriter:
    """Writes blocks of lines in a thread of its own.

    Args:
        sink: Where they go; used by that thread alone.
        queue_bytes: How much may wait for the disk.
        mark: Makes the line that stands for lines that were lost, from how many they are and why.
    """

    def __init__(self, sink: Sink, *, queue_bytes: int, mark: Callable[[int, str], bytes] = mark_in_words) -> None:
        self._sink = sink
        self._queue_bytes = queue_bytes
        self._mark = mark
        self._changed = threading.Condition()
        self._blocks: deque[_Block] = deque()
        self._waiting_bytes = 0
        self._lost_at_end = 0
        self._dropped_lines = 0
        self._closed = False
        self._unmarked: Counter[str] = Counter()
        self._at_line_start = True
        self._last_error: str | None = None
        # A daemon, because a write to a file server that is gone may never return.
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)

    @property
    def dropped_lines(self) -> int:
        """Lines that did not reach the disk."""
        with self._changed:
            return self._dropped_lines

    @property
    def last_error(self) -> str | None:
        """Why lines could not be written, the last time; None when that never happened."""
        return self._last_error

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def offer(self, lines: bytes) -> None:
        """Take complete lines to be written, or count them as lost when too much waits already; never wait."""
        with self._changed:
            if self._waiting_bytes and self._waiting_bytes + len(lines) > self._queue_bytes:
                count = lines.count(b"\n")
                self._lost_at_end += count
                self._dropped_lines += count
                return
            self._blocks.append(_Block(lines, self._lost_at_end))
            self._waiting_bytes += len(lines)
            self._lost_at_end = 0
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Write what waits, in bounded time; return whether the thread has come to its end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (block := self._next()) is not None:
            self._unmarked[TOO_SLOW] += block.lost_before
            self._write(block.lines)
            with self._changed:
                self._waiting_bytes -= len(block.lines)
        self._write(b"")
        try:
            self._sink.close()
        except OSError as error:
            self._last_error = _words(error)

    def _next(self) -> _Block | None:
        """Wait for lines, or for a loss that is to be marked; return None at the end."""
        with self._changed:
            while not self._blocks and not self._lost_at_end and not self._closed:
                self._changed.wait()
            if self._blocks:
                return self._blocks.popleft()
            lost, self._lost_at_end = self._lost_at_end, 0
            return _Block(b"", lost) if lost else None

    def _write(self, lines: bytes) -> None:
        if self._put(self._marks()):
            unwritten = lines
        else:
            self._unmarked.clear()
            unwritten = self._put(lines)
        count = unwritten.count(b"\n")
        if count:
            self._unmarked[self._last_error or ""] += count
            with self._changed:
                self._dropped_lines += count

    def _marks(self) -> bytes:
        marks = b"".join(self._mark(count, reason) for reason, count in self._unmarked.items() if count)
        return b"\n" + marks if marks and not self._at_line_start else marks

    def _put(self, data: bytes) -> bytes:
        """Write data; return what could not be written."""
        while data:
            try:
                taken = self._sink.write(data)
            except OSError as error:
                self._last_error = _words(error)
                break
            self._at_line_start = data.endswith(b"\n", 0, taken)
            data = data[taken:]
        return data


def _words(error: OSError) -> str:
    return error.strerror or type(error).__name__
