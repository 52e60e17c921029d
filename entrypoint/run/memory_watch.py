"""The memory watch: a look at memory every second, in a thread of its own, that tells the run's loop what it sees.

Reading /proc and /sys can hang, and so can a disk: the loop waits for neither, and the disk has yet another thread. A
look that does not come back holds up those that would follow, and is told as silence.
"""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from entrypoint.node.memory import Subjects, find_subjects, take_sample
from entrypoint.run.logfile import FileSink, LogWriter, Sink
from entrypoint.run.memory_history import LowMemory, MemoryHistory, MemoryState
from entrypoint.run.memory_picture import outline, picture
from entrypoint.settings.schema import WatchSettings
from entrypoint.verdict.evidence import MemoryEvidence

MAX_BYTES = 16 << 20
"""Size of the file at which it is set aside as ``<name>.1``, replacing the one before."""
QUEUE_BYTES = 256 << 10
"""How much may wait for the disk: minutes of samples."""
LAST_LOOK_S = 2.0
"""How long an end waits for the last look: milliseconds as a rule, more where memory just ran out. Without it a kill
that the kernel has counted could be taken for somebody's signal."""
STOP_S = 0.2
"""How long the end of the watch waits for its threads."""
FIND_EVERY = 10
"""Samples between two searches for the engine's processes, which cost more than a sample."""
WHOLE_EVERY = 10
"""Samples of which one is written down as a whole, and of the others what a curve is drawn of."""


class MemoryWatch:
    """Watches memory from the start of a run to its end.

    Until ``follow`` only the node and the supervisor's own groups are looked at.

    Args:
        path: The file that samples are written to as lines of JSON, mode 0600; its directory exists.
        settings: How often, where the floor is, and when to warn.
        on_state: Told of every sample, in the loop that ``start`` is called in.
        on_low: Told once each time that memory is about to run out, in the same loop.
        root: Where /proc and /sys are.
        monotonic: A clock that nobody sets.
        wall: Unix time.
        sink: Where the lines go instead of the file.
    """

    def __init__(
        self,
        path: Path,
        settings: WatchSettings,
        *,
        on_state: Callable[[MemoryState], None],
        on_low: Callable[[LowMemory], None],
        root: Path = Path("/"),
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sink: Sink | None = None,
    ) -> None:
        self._every_s = settings.memory_every_s
        self._on_state = on_state
        self._on_low = on_low
        self._root = root
        self._monotonic = monotonic
        self._wall = wall
        self._history = MemoryHistory(
            floor_gib=settings.memory_floor_gib, warn_s=settings.memory_warn_s, every_s=self._every_s
        )
        self._writer = LogWriter(sink or FileSink(path, max_bytes=MAX_BYTES), queue_bytes=QUEUE_BYTES, mark=_mark)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = threading.Condition()  # guards everything below, and the history
        self._pid: int | None = None
        self._subjects: Subjects | None = None
        self._uses_left = 0
        self._samples = 0
        self._stopping = False
        self._asked: list[Callable[[], None]] = []
        self._looking_since_s: float | None = None
        self._missed = 0
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)

    @property
    def missed_samples(self) -> int:
        """Samples that were due and not taken, since another one did not come back in time."""
        with self._changed:
            return self._missed

    @property
    def unwritten_samples(self) -> int:
        """Samples that did not reach the disk."""
        return self._writer.dropped_lines

    @property
    def last_write_error(self) -> str | None:
        """Why samples could not be written, the last time; None when that never happened."""
        return self._writer.last_error

    @property
    def failure(self) -> str | None:
        """What went wrong within a look, the last time; looks go on. None when that never happened."""
        with self._changed:
            return self._failure

    @property
    def silent_s(self) -> float:
        """For how long the present look has not come back; 0 when none is under way."""
        with self._changed:
            return 0.0 if self._looking_since_s is None else self._monotonic() - self._looking_since_s

    def start(self) -> None:
        """Begin to look, and to tell the loop that this is called in."""
        self._loop = asyncio.get_running_loop()
        self._writer.start()
        self._thread.start()

    def follow(self, pid: int | None) -> None:
        """Look at the processes below another one from now on, and count kills anew.

        Args:
            pid: The warden of an engine that was just started; None when there is none any more.
        """
        with self._changed:
            self._pid = pid
            self._uses_left = 0
            self._history.begin_engine()

    async def evidence(self, ended_unix_s: float, *, within_s: float = LAST_LOOK_S) -> MemoryEvidence | None:
        """Look once more, at the kernel's counters above all, and return how memory went until an end.

        Args:
            ended_unix_s: When the engine ended.
            within_s: How long to wait for that look; without it, what is known counts.

        Returns:
            The evidence, or None where memory could never be read.
        """
        await self._look_again(within_s)
        return self.known_evidence(ended_unix_s)

    async def headroom_bytes(self, *, within_s: float = LAST_LOOK_S) -> int | None:
        """Look once more, and return how much memory is left for use; None where it could never be read.

        Args:
            within_s: How long to wait for that look; without it, what is known counts.
        """
        await self._look_again(within_s)
        return self.known_headroom_bytes

    @property
    def known_headroom_bytes(self) -> int | None:
        """How much memory was left for use at the last look; waits for nothing."""
        with self._changed:
            return self._history.headroom_bytes

    async def _look_again(self, within_s: float) -> None:
        looked = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._changed:
            waits = self._thread.is_alive() and not self._stopping
            if waits:
                self._asked.append(lambda: _call(loop, looked.set))
                self._changed.notify()
        if waits:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(looked.wait(), within_s)

    def known_evidence(self, ended_unix_s: float) -> MemoryEvidence | None:
        """Return how memory went until an end from what is known already; waits for nothing."""
        with self._changed:
            return self._history.evidence(ended_unix_s)

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """End in bounded time; return whether everything was written, or counted as lost, and both threads ended."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._loop is None:
            return True
        self._thread.join(timeout_s)
        written = self._writer.close(timeout_s)
        return written and not self._thread.is_alive()

    def step(self) -> MemoryState | None:
        """Look once, write it down and tell the loop; return how things stand, or None where the look failed."""
        with self._changed:
            asked, self._asked = self._asked, []
            self._looking_since_s = self._monotonic()
        try:
            return self._look()
        except Exception as error:  # noqa: BLE001 - the watch must outlive one bad look; the error is kept
            with self._changed:
                self._failure = f"{type(error).__name__}: {error}"
            return None
        finally:
            with self._changed:
                self._looking_since_s = None
            for answer in asked:
                answer()

    def _look(self) -> MemoryState:
        sample = take_sample(self._present_subjects(), self._wall(), self._monotonic(), self._root)
        with self._changed:
            state = self._history.note(sample)
            warning = self._history.warning()
            whole = self._samples % WHOLE_EVERY == 0
            self._samples += 1
        self._writer.offer(_line(picture(state) if whole else outline(state)))
        if self._loop is not None:
            _call(self._loop, lambda: self._on_state(state))
            if warning is not None:
                _call(self._loop, lambda: self._on_low(warning))
        return state

    def _present_subjects(self) -> Subjects:
        """Return whom to look at, found anew every few samples and whenever there is another engine."""
        with self._changed:
            pid, before, uses_left = self._pid, self._subjects, self._uses_left
            self._uses_left = uses_left - 1 if uses_left else FIND_EVERY - 1
        if before is not None and uses_left:
            return before
        subjects = find_subjects(pid, self._root, before)
        with self._changed:
            self._subjects = subjects
        return subjects

    def _run(self) -> None:
        due_s = self._monotonic()
        while not self._stopping:
            self.step()
            missed = int(max(0.0, self._monotonic() - due_s) // self._every_s)
            # A look that was asked for in between does not put off the next one.
            due_s += self._every_s * (missed + 1) if self._monotonic() >= due_s else 0.0
            with self._changed:
                self._missed += missed
                self._changed.wait_for(lambda: self._stopping or self._asked, max(0.0, due_s - self._monotonic()))


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


def _mark(count: int, reason: str) -> bytes:
    """Return the line that stands for samples that were lost."""
    return _line({"unwritten_samples": count, "reason": reason})


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has closed: nobody wants to know any more
        loop.call_soon_threadsafe(callback)
