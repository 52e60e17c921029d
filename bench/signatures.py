"""How long an ordinary log is searched for everything that a verdict wants, beside the search for phases alone."""

import time
from collections.abc import Callable

from bench.lab import Lab
from bench.log_scan import MIX
from bench.record import Record, Topic
from bench.row import Kind, Row
from entrypoint.engine.log import LogScanner
from entrypoint.engine.signature_book import packaged_signatures
from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.verdict.gather import LogGatherer

GATHERED, SCANNED = "log gathered", "log scanned"
BYTES = 64 << 20
BLOCK = MIX * max(1, (1 << 20) // len(MIX))
"""About what a reader of files takes at once."""
LIMIT = 3.0


def sit(lab: Lab, record: Record) -> None:
    """Measure both once, one after the other."""
    del lab
    gatherer = LogGatherer("bench", SignatureIndex(packaged_signatures()))
    record.add(GATHERED, _seconds(gatherer.feed))
    record.add(SCANNED, _seconds(LogScanner().scan))


def _seconds(search: Callable[[bytes], object]) -> float:
    begin = time.perf_counter()
    for _ in range(BYTES // len(BLOCK)):
        search(BLOCK)
    return time.perf_counter() - begin


def rows(record: Record) -> tuple[Row, ...]:
    """Return the row."""
    return (
        Row(
            "signatures in 64 MiB of log",
            record.measurement(GATHERED),
            "s",
            record.measurement(SCANNED),
            "the search for phases alone",
            LIMIT,
            Kind.RATIO,
        ),
    )


TOPIC = Topic("signatures", frozenset({GATHERED, SCANNED}), rows)
