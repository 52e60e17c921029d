"""Findings as people read them."""

import io
import shutil
from collections.abc import Sequence
from typing import TextIO

from entrypoint.findings import Finding, Severity
from entrypoint.readable import shortened

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def table(findings: Sequence[Finding], stream: TextIO) -> str:
    """Return findings as a table, coloured where the stream is a terminal; nothing when there are none."""
    if not findings:
        return ""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = Table(show_edge=False, pad_edge=False, header_style="bold")
    rows.add_column("severity")
    rows.add_column("rule", no_wrap=True)
    rows.add_column("finding and remedy", overflow="fold")
    for finding in findings:
        rows.add_row(
            finding.severity.value,
            finding.rule,
            Text(shortened(f"{finding.message}\n{finding.remedy}")),  # as it is: [engine.args] is no markup
            style=_STYLE[finding.severity],
        )
    text = io.StringIO()
    width = shutil.get_terminal_size((120, 24)).columns
    Console(
        file=text, width=width, force_terminal=stream.isatty(), color_system="auto" if stream.isatty() else None
    ).print(rows)
    return text.getvalue()


def refusal(refusing: Sequence[Finding]) -> str:
    """Return the closing sentence of a run that is refused."""
    rules = sorted({finding.rule for finding in refusing})
    ignore = ", ".join(f'"{rule}"' for rule in rules)
    count = "1 error" if len(refusing) == 1 else f"{len(refusing)} errors"
    return (
        f"supervise: nothing was started: {count} (exit code {int(refusing[0].code)}). "
        f"Who knows better sets rules.ignore = [{ignore}].\n"
    )
