"""One line of the table: what was measured, beside what, and whether a promise is kept."""

import statistics
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class NotMeasuredError(Exception):
    """A number could not be measured; the message says why."""


class Kind(StrEnum):
    """What the limit of a row bounds."""

    AT_MOST = "at most"
    """The measured number."""
    AT_LEAST = "at least"
    """The measured number, from below."""
    RATIO = "ratio at most"
    """The measured number divided by the peer's."""
    SHOWN = "shown"
    """Nothing: the number belongs to the picture."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured, round by round.

    Attributes:
        samples: One number per measurement.
        reason: Why there is no number that counts; empty where there is one.
    """

    samples: tuple[float, ...]
    reason: str = ""

    @property
    def median(self) -> float | None:
        """The number that counts; None when it was not measured."""
        return None if self.reason else statistics.median(self.samples)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        name: What was measured.
        measured: The numbers.
        unit: Their unit, the peer's as well.
        peer: What stands beside, measured in the same run; None where nothing does.
        peer_name: What the peer is.
        limit: The promise; None for a row that only shows.
        kind: What the limit bounds.
    """

    name: str
    measured: Measurement
    unit: str
    peer: Measurement | None
    peer_name: str
    limit: float | None
    kind: Kind

    @property
    def ratio(self) -> float | None:
        """The measured number divided by the peer's; None where one of them is missing or the peer's is 0."""
        peer = self.peer.median if self.peer else None
        return self.measured.median / peer if self.measured.median is not None and peer else None

    @property
    def ok(self) -> bool:
        """Whether everything was measured and the promise is kept."""
        if self.measured.median is None or (self.peer is not None and self.peer.median is None):
            return False
        if self.kind is Kind.SHOWN:
            return True
        bounded = self.ratio if self.kind is Kind.RATIO else self.measured.median
        if bounded is None or self.limit is None:
            return False
        return bounded >= self.limit if self.kind is Kind.AT_LEAST else bounded <= self.limit

    def data(self) -> dict[str, Any]:
        """Return the row as JSON data, with every sample."""
        return {
            **asdict(self),
            "measured": _data(self.measured),
            "peer": _data(self.peer) if self.peer else None,
            "ratio": self.ratio,
            "ok": self.ok,
        }


def _data(measurement: Measurement) -> dict[str, Any]:
    return {**asdict(measurement), "median": measurement.median}
