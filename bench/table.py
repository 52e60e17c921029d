"""The table, for people."""

from textwrap import shorten

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.row import Kind, Measurement, Row

WIDTH = 150
"""Columns of a table that is written to a file or a pipe."""
REASON_CHARACTERS = 200
"""Of a reason, in a cell; stderr and the JSON output have all of it."""
NOTHING = "-"
FORMATS = {
    "s": "{:.3f} s",
    "ms": "{:.2f} ms",
    "MB": "{:.1f} MB",
    "% of a core": "{:.2f} % of a core",
    "lines/s": "{:,.0f} lines/s",
}


def show(rows: tuple[Row, ...]) -> None:
    """Print all rows on stdout."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    table = Table("what", "measured", "against", "ratio", "limit", "ok")
    for row in rows:
        table.add_row(row.name, _numbers(row.measured, row.unit), _peer(row), _ratio(row), _limit(row), _ok(row))
    console.print(table)


def _numbers(measurement: Measurement, unit: str) -> str:
    """Return the median, and the range where there is one."""
    median = measurement.median
    if median is None:
        return shorten(f"not measured: {measurement.reason}", REASON_CHARACTERS)
    text = FORMATS[unit].format(median)
    if len(measurement.samples) == 1:
        return text
    low, high = (FORMATS[unit].format(edge(measurement.samples)).split()[0] for edge in (min, max))
    return f"{text} ({low} to {high})"


def _peer(row: Row) -> str:
    return NOTHING if row.peer is None else f"{row.peer_name}: {_numbers(row.peer, row.unit)}"


def _ratio(row: Row) -> str:
    return NOTHING if row.ratio is None else f"x{row.ratio:.2f}"


def _limit(row: Row) -> str:
    if row.limit is None:
        return NOTHING
    if row.kind is Kind.RATIO:
        return f"x{row.limit:g}"
    number = f"{row.limit:,g}" if row.limit < 1000 else f"{row.limit:,.0f}"
    return f"{'at least ' if row.kind is Kind.AT_LEAST else ''}{number} {row.unit}"


def _ok(row: Row) -> Text:
    if row.kind is Kind.SHOWN and row.ok:
        return Text(NOTHING)
    return Text("yes", style="green") if row.ok else Text("NO", style="bold red")
