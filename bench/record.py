"""What the rounds yield: a series of numbers per quantity, and why a quantity could not be measured."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bench.row import Measurement, Row


class Record:
    """The numbers so far.

    Args:
        wanted: Names of the series that the chosen rows are made of.
    """

    def __init__(self, wanted: Collection[str]) -> None:
        self._samples: dict[str, list[float]] = {series: [] for series in wanted}
        self._failures: dict[str, str] = {}

    def wants(self, *series: str) -> bool:
        """Return whether a number of one of these series is of use: it was asked for and has not failed before."""
        return any(name in self._samples and name not in self._failures for name in series)

    def add(self, series: str, number: float) -> None:
        """Note a number; one that nobody asked for is dropped."""
        if self.wants(series):
            self._samples[series].append(number)

    def fail(self, series: str, reason: str) -> None:
        """Note that a quantity could not be measured: the whole series no longer counts."""
        if self.wants(series):
            self._failures[series] = reason

    def count(self, series: str) -> int:
        """Return how many numbers a series has."""
        return len(self._samples.get(series, ()))

    def measurement(self, series: str) -> Measurement:
        """Return what is known of a series."""
        samples = tuple(self._samples[series])
        reason = self._failures.get(series, "" if samples else "no round was run")
        return Measurement(samples, reason)


@dataclass(frozen=True, slots=True)
class Topic:
    """Rows that are asked for together.

    Attributes:
        name: What ``--only`` calls them.
        series: The series that they are made of.
        rows: Makes them from the numbers.
    """

    name: str
    series: frozenset[str]
    rows: Callable[[Record], tuple[Row, ...]]
