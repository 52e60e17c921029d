"""The layers: the image's tree begins the shared one, that one fills the local one, and what is new there flows back.

Every step adds and none replaces, so that any number of jobs may take it at once, and be killed at any moment.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from entrypoint.plan.caches import CacheDirectory
from entrypoint.warm.copy_report import CopyReport, refused, unusable
from entrypoint.warm.copying import TAKEN, exists, flush_directory
from entrypoint.warm.file_copy import Durability
from entrypoint.warm.staging import staging, staging_beside
from entrypoint.warm.transfer import Manner, transfer

MARKER: Final = "seeded.json"
"""In the top directory of a shared tree: it was begun by this software, and from what."""


def seed(caches: Iterable[CacheDirectory], source: Path, target: Path, manner: Manner) -> CopyReport:
    """Give a local tree what it lacks of another; a crash of the machine may cost it, not tear it.

    Args:
        caches: The caches; those that keep nothing are passed over.
        source: The shared tree, or the image's.
        target: The local tree.
        manner: How.
    """
    kept = tuple(caches)
    return transfer(kept, _places(kept, source), target, Durability.IN_MEMORY, manner)


def publish(caches: Iterable[CacheDirectory], source: Path, target: Path, manner: Manner) -> CopyReport:
    """Give a shared tree what it lacks of a local one, and have it on the disk.

    A tree that may not be written is no failure: the report says so.

    Args:
        caches: The caches; those that keep nothing are passed over.
        source: The local tree.
        target: The shared tree.
        manner: How; builders may be at work in the local tree, so that its ``quiet_s`` matters.
    """
    kept = tuple(caches)
    return transfer(kept, _places(kept, source), target, Durability.FLUSHED, manner)


def begin_shared(
    caches: Iterable[CacheDirectory], image_sources: Mapping[str, Path], shared: Path, manner: Manner
) -> CopyReport:
    """Begin a shared tree with what the image has: as a whole, or not at all where that fails.

    Where there is one already, also one that another job has just made, it is given what it lacks.

    Args:
        caches: The caches; those that keep nothing are passed over.
        image_sources: The image's directory for each place that it has something for.
        shared: The shared tree.
        manner: How.
    """
    kept = tuple(caches)
    try:
        if not exists(shared):
            begun = _begin(kept, image_sources, shared, manner)
            if begun is not None:
                return begun
        report = transfer(kept, image_sources, shared, Durability.FLUSHED, manner)
        if not report.is_read_only and not exists(shared / MARKER):
            _mark_late(shared, _marker(image_sources, report, manner), manner)
    except OSError as error:
        return CopyReport(stopped=unusable(shared, error))
    return report


def _places(caches: Iterable[CacheDirectory], tree: Path) -> dict[str, Path]:
    return {cache.place: tree / cache.place for cache in caches}


def _begin(
    caches: Iterable[CacheDirectory], image_sources: Mapping[str, Path], shared: Path, manner: Manner
) -> CopyReport | None:
    """Make the tree beside its place and rename it; return None where another was faster.

    Raises:
        OSError: It cannot be made there.
    """
    with staging_beside(shared, manner.maker, manner.now_unix_s) as staged:
        report = transfer(caches, image_sources, staged, Durability.FLUSHED, manner)
        if report.stopped is not None:
            stop = refused(shared, report.stopped.refusal) or report.stopped
            return CopyReport(failures=report.failures, seconds=report.seconds, stopped=stop)
        _write(staged / MARKER, _marker(image_sources, report, manner))
        flush_directory(staged)
        try:
            staged.rename(shared)
        except OSError as error:
            if error.errno not in TAKEN:
                raise
            return None
    for parent in list(shared.parents)[:3]:
        flush_directory(parent)
    return report


def _marker(image_sources: Mapping[str, Path], report: CopyReport, manner: Manner) -> dict[str, Any]:
    return {
        "seeded_unix_s": manner.now_unix_s,
        "host": manner.maker.vantage.host,
        "from": {place: str(directory) for place, directory in sorted(image_sources.items())},
        "entries": report.copied,
        "bytes": report.copied_bytes,
    }


def _mark_late(shared: Path, marker: dict[str, Any], manner: Manner) -> None:
    """Mark a tree that something was published to before it was begun."""
    with staging(shared, manner.maker, manner.now_unix_s) as staged:
        _write(staged / MARKER, marker)
        (staged / MARKER).rename(shared / MARKER)


def _write(path: Path, document: dict[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
