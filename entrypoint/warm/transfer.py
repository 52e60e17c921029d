"""The transfer: what one tree lacks of another, copied by several threads and told as one report.

Any of its calls may hang with a network file system. Its threads are daemons, so that they keep nobody from ending.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from entrypoint.plan.caches import CacheDirectory
from entrypoint.warm import entries, staging
from entrypoint.warm.copy_report import CopyReport, EntryFailure, Stop, VariableReport, refused, unusable
from entrypoint.warm.copying import (
    Changed,
    Copied,
    Copier,
    Failed,
    Kept,
    Outcome,
    flush_directory,
)
from entrypoint.warm.entry import Entry
from entrypoint.warm.file_copy import Durability
from entrypoint.warm.lock_owner import Vantage
from entrypoint.warm.staging import Maker

_MOST_WORKERS: Final = 8
_WORKERS_PER_PROCESSOR: Final = 4
"""More than one: they wait for disks and servers most of the time."""


def default_workers() -> int:
    """Return how many threads copy."""
    return min(_MOST_WORKERS, _WORKERS_PER_PROCESSOR * len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Manner:
    """How a transfer is made.

    Attributes:
        now_unix_s: The time, in seconds since 1970.
        quiet_s: How long nothing of an entry may have been written.
        workers: How many threads copy.
        on_progress: Told of bytes done and bytes in all, by one thread at a time.
        cancelled: Once it is set, what is not copied is left.
        maker: This process.
        clock: Tells seconds that only grow.
    """

    now_unix_s: float
    quiet_s: float = 0.0
    workers: int = field(default_factory=default_workers)
    on_progress: Callable[[int, int], None] = lambda _done_bytes, _total_bytes: None
    cancelled: threading.Event = field(default_factory=threading.Event)
    maker: Maker = field(default_factory=lambda: Maker.of(os.getpid(), Vantage.here()))
    clock: Callable[[], float] = time.monotonic


def transfer(
    caches: Iterable[CacheDirectory], sources: Mapping[str, Path], target: Path, durability: Durability, manner: Manner
) -> CopyReport:
    """Copy every finished entry that a tree lacks; what it has stays as it is.

    Args:
        caches: The caches; those that keep nothing are passed over.
        sources: The directory that entries come from, by the cache's place.
        target: The tree that they go to, made where it is missing and there is something to copy.
        durability: What of it outlives a crash.
        manner: How else.
    """
    begin_s = manner.clock()
    works = [_look(cache, sources[cache.place], target, manner) for cache in caches if _is_kept(cache, sources)]
    stopped = _Transfer(works, target, durability, manner).run()
    failures = tuple(failure for work in works for failure in work.failures)
    return CopyReport(tuple(work.report() for work in works), failures, manner.clock() - begin_s, stopped)


def _is_kept(cache: CacheDirectory, sources: Mapping[str, Path]) -> bool:
    return bool(cache.place and cache.entries and cache.place in sources)


def _look(cache: CacheDirectory, source: Path, target: Path, manner: Manner) -> "_Work":
    """Return what there is to do for a cache; of what the target has already, nothing but names is looked at."""
    place = target / cache.place
    there = entries.names(place, cache.entries)
    listing = entries.finished(source, cache.entries, quiet_s=manner.quiet_s, now_unix_s=manner.now_unix_s, known=there)
    return _Work(cache.variable, source, place, listing)


class _StoppedError(Exception):
    """The whole transfer was ended while a file was copied."""


class _Work:
    """One cache: what is to be copied, and what came of it.

    Args:
        variable: Its environment variable.
        source: The directory that entries come from.
        target: The directory that they go to.
        listing: What there is.
    """

    def __init__(self, variable: str, source: Path, target: Path, listing: entries.Listing) -> None:
        self.variable = variable
        self.source = source
        self.target = target
        self.listing = listing
        self.failures: list[EntryFailure] = []
        self._copied: list[Entry] = []
        self._kept = listing.known
        self._changed = 0

    def note(self, entry: Entry, outcome: Outcome) -> None:
        """Remember what came of an entry."""
        match outcome:
            case Copied():
                self._copied.append(entry)
            case Kept():
                self._kept += 1
            case Changed():
                self._changed += 1
            case Failed(reason):
                self.failures.append(EntryFailure(self.variable, entry.path, reason))

    @property
    def changed_directories(self) -> set[Path]:
        """The directories that entries were put in."""
        return {(self.target / entry.path).parent for entry in self._copied}

    def report(self) -> VariableReport:
        """Return what came of the cache."""
        new = self._kept - self.listing.known
        tried = len(self._copied) + new + self._changed + len(self.failures)
        return VariableReport(
            self.variable,
            copied=len(self._copied),
            copied_bytes=sum(entry.size_bytes for entry in self._copied),
            copied_files=sum(len(entry.files) for entry in self._copied),
            kept=self._kept,
            unfinished=self.listing.unfinished + self._changed,
            unfit=self.listing.unfit,
            failed=len(self.failures),
            left=len(self.listing.entries) - tried,
        )


class _Transfer:
    """Copies what there is to do, until it is done or there is a reason to stop.

    Args:
        works: What there is to do.
        target: The tree that entries go to.
        durability: What of it outlives a crash.
        manner: How else.
    """

    def __init__(self, works: list[_Work], target: Path, durability: Durability, manner: Manner) -> None:
        self._works = works
        self._target = target
        self._durability = durability
        self._manner = manner
        # The largest first: one of them at the end would leave all other threads idle.
        pairs = [(work, entry) for work in works for entry in work.listing.entries]
        self._waiting = deque(sorted(pairs, key=lambda pair: pair[1].size_bytes, reverse=True))
        self._total_bytes = sum(entry.size_bytes for _, entry in self._waiting)
        self._done_bytes = 0
        self._lock = threading.Lock()
        self._stop: Stop | None = None
        self._broken: list[BaseException] = []

    def run(self) -> Stop | None:
        """Copy; return why not everything was tried."""
        manner = self._manner
        if not self._waiting:
            staging.clear(self._target / staging.DIRECTORY, manner.maker, manner.now_unix_s)
            return None
        try:
            with staging.staging(self._target, manner.maker, manner.now_unix_s) as directory:
                self._copy_in_threads(Copier(directory, self._durability))
        except OSError as error:
            return unusable(self._target, error)
        if self._durability is Durability.FLUSHED:
            self._flush()
        if self._broken:
            raise self._broken[0]
        return self._stop

    def _copy_in_threads(self, copier: Copier) -> None:
        count = min(self._manner.workers, len(self._waiting))
        threads = [
            threading.Thread(target=self._copy, args=(copier,), name=f"cache-copy-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # whatever interrupts: nothing may be put in place from a directory that is being removed
            self._stop = Stop("it was interrupted")
            for thread in threads:
                thread.join()
            raise

    def _copy(self, copier: Copier) -> None:
        try:
            while self._stop is None:
                try:
                    work, entry = self._waiting.popleft()
                except IndexError:
                    return
                self._copy_one(copier, work, entry)
        except _StoppedError:
            return
        except BaseException as error:  # noqa: BLE001  # a defect: it is raised where the transfer was asked for
            self._broken.append(error)
            self._stop = Stop(repr(error))

    def _copy_one(self, copier: Copier, work: _Work, entry: Entry) -> None:
        share = _Share(entry.size_bytes, self._advance)
        outcome = copier.copy(entry, work.source, work.target, share.advance)
        with self._lock:
            work.note(entry, outcome)
            if isinstance(outcome, Failed) and outcome.refusal:
                self._stop = refused(self._target, outcome.refusal)
        share.finish()

    def _advance(self, count_bytes: int) -> None:
        if self._manner.cancelled.is_set() and self._stop is None:
            self._stop = Stop("it was no longer wanted")
        if self._stop is not None:
            raise _StoppedError
        with self._lock:
            self._done_bytes += count_bytes
            self._manner.on_progress(self._done_bytes, self._total_bytes)

    def _flush(self) -> None:
        """Write the names of what is new to the disk, up to the tree and its own name."""
        changed: set[Path] = set()
        for work in self._works:
            for directory in work.changed_directories:
                within = [parent for parent in directory.parents if parent.is_relative_to(self._target)]
                changed.update((directory, *within))
        for directory in sorted(changed, reverse=True):
            flush_directory(directory)
        if changed:
            flush_directory(self._target.parent)


class _Share:
    """The part of one entry in the progress: never more than its size, however often it is tried.

    Args:
        size_bytes: The entry's size.
        advance: Told of bytes.
    """

    def __init__(self, size_bytes: int, advance: Callable[[int], None]) -> None:
        self._left_bytes = size_bytes
        self._advance = advance

    def advance(self, count_bytes: int) -> None:
        """Tell of bytes that were copied."""
        count_bytes = min(count_bytes, self._left_bytes)
        self._left_bytes -= count_bytes
        self._advance(count_bytes)

    def finish(self) -> None:
        """Tell of the rest, which there was no need to copy or no way."""
        self.advance(self._left_bytes)
