"""Findings as people read them."""

import io
import shutil
import sys
from collections.abc import Sequence

from entrypoint.findings import Finding, Severity

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def table(findings: Sequence[Finding]) -> str:
    """Return findings as a table, coloured on a terminal; nothing when there are none."""
    if not findings:
        return ""
    from rich.console import Console
    from rich.table import Table

    rows = Table(show_edge=False, pad_edge=False, header_style="bold")
    rows.add_column("severity")
    rows.add_column("rule", no_wrap=True)
    rows.add_column("finding and remedy", overflow="fold")
    for finding in findings:
        rows.add_row(
            finding.severity.value, finding.rule, f"{finding.message}\n{finding.remedy}", style=_STYLE[finding.severity]
        )
    text = io.StringIO()
    width = shutil.get_terminal_size((120, 24)).columns
    Console(
        file=text, width=width, force_terminal=sys.stderr.isatty(), color_system="auto" if sys.stderr.isatty() else None
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
