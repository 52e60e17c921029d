"""A generation: one life of the engine, with its processes, its log and the client that talks to it."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from entrypoint.engine.client import EngineClient
from entrypoint.engine.log import FactKind, LogFact
from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.run.child import ChildListener, EngineChild
from entrypoint.run.logpipe import LogPipe
from entrypoint.run.numbers import EngineNumbers
from entrypoint.settings.redaction import Masker
from entrypoint.verdict.evidence import LogEvidence
from entrypoint.verdict.gather import LogGatherer

LOG_JOIN_S = 1.0
"""Seconds that the last lines may take after the engine's processes are gone."""


class Generation:
    """One start of the engine.

    Args:
        number: Which start, from 0.
        started_at: When, by the run's monotonic clock.
        client: Talks to the engine; closed with the generation.
    """

    def __init__(self, number: int, started_at: float, client: EngineClient) -> None:
        self.number = number
        self.started_at = started_at
        self.began_unix_s = time.time()
        self.headroom_before_bytes: int | None = None
        """What was left of memory before it was started; None where that is not known."""
        self.client = client
        self.numbers = EngineNumbers()
        self.nudge = asyncio.Event()
        """Set when the log suggests that a look at the engine's port is worth it."""
        self.release_begun = asyncio.Event()
        """Set when the engine says that it has begun to release what it holds."""
        self.was_ready = False
        self._child: EngineChild | None = None
        self._log: LogPipe | None = None
        self._gatherer: LogGatherer | None = None

    def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        listener: ChildListener,
        on_facts: Callable[[list[LogFact]], None],
        index: SignatureIndex,
        log_path: Path,
        log_max_bytes: int,
        masker: Masker,
    ) -> None:
        """Start the engine behind its warden, and the threads that read and write its output.

        Args:
            argv: The engine's command.
            environment: Its whole environment.
            listener: Told what happens to its processes.
            on_facts: Given what its log says, in the event loop.
            index: What its lines can mean.
            log_path: Where its output goes.
            log_max_bytes: Size at which the log is set aside.
            masker: Removes secrets from its output.

        Raises:
            OSError: The warden cannot be started.
        """
        read_end, write_end = os.pipe()
        forward = partial(_call_soon, asyncio.get_running_loop(), on_facts)
        self._gatherer = LogGatherer(str(log_path), index)
        self._log = LogPipe(
            read_end,
            log_path,
            masker=masker,
            on_facts=forward,
            on_lines=self._gatherer.feed,
            max_bytes=log_max_bytes,
        )
        self._log.start()
        self._child = EngineChild(argv, environment, write_end, listener)

    @property
    def child(self) -> EngineChild:
        """The engine's processes.

        Raises:
            RuntimeError: The generation was not started.
        """
        if self._child is None:
            raise RuntimeError("this generation has no process yet")
        return self._child

    @property
    def started(self) -> bool:
        """Whether there are processes to look after."""
        return self._child is not None

    async def caught_up(self) -> None:
        """Return once all that the engine has printed so far is taken in, in bounded time.

        News of its processes and its log come on two ways; what it said before it died is known before its death is.
        """
        if self._log is None:
            return
        read = asyncio.Event()
        self._log.when_caught_up(partial(_call_soon, asyncio.get_running_loop(), read.set))
        await read.wait()

    @property
    def signs_of_work(self) -> int:
        """How many signs of work the engine's log has shown."""
        return self._gatherer.signs_of_health if self._gatherer else 0

    def log_evidence(self) -> LogEvidence:
        """Return what the engine's log holds so far."""
        return self._gatherer.evidence() if self._gatherer else LogEvidence("")

    def take(self, facts: Sequence[LogFact]) -> bool:
        """Take in what the log says; return whether any of it is progress."""
        for fact in facts:
            if fact.kind in {FactKind.HTTP_UP, FactKind.FIRED_UP}:
                self.nudge.set()
            elif fact.kind is FactKind.DRAINING and int(fact.number("remaining")) == 0:
                self.release_begun.set()
        progress = [self.numbers.note(fact) for fact in facts]  # each must be noted, also after the first that counts
        return any(progress)

    def tail(self) -> tuple[str, ...]:
        """Return the engine's last lines, secrets masked."""
        return self._log.tail() if self._log else ()

    def log_figures(self) -> dict[str, Any]:
        """Return where the log is, how many lines did not reach the disk, and why, the last time."""
        if self._log is None:
            return {}
        return {
            "path": str(self._log.path),
            "dropped_lines": self._log.dropped_lines,
            "write_error": self._log.last_write_error,
        }

    async def close(self) -> None:
        """Read the last lines, in bounded time, and close the client."""
        if self._log is not None:
            log = self._log
            await asyncio.get_running_loop().run_in_executor(None, lambda: log.close(LOG_JOIN_S))
        await self.client.aclose()


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        return  # the loop has closed: the run is over, and the file has the lines
