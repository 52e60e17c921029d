"""The report: one page that says how a run ended, why, and what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from entrypoint.settings.redaction import Masker
from entrypoint.tell.board import Phase
from entrypoint.tell.files import write_private, write_private_json


@dataclass(frozen=True, slots=True)
class Report:
    """What a report holds.

    Attributes:
        code: Exit code.
        summary: What happened, in one sentence.
        remedy: What to do, in one sentence.
        evidence: Lines that show it.
        phase: The state in which it happened.
        phases: The states with their durations.
        notes: Other things worth knowing, such as requests that were lost.
        status: The whole picture at the end.
        log_tail: The engine's last lines.
        log_path: Where its whole log is.
    """

    code: int
    summary: str
    remedy: str
    evidence: Sequence[str]
    phase: str
    phases: Sequence[Phase]
    notes: Sequence[str]
    status: Mapping[str, Any]
    log_tail: Sequence[str]
    log_path: Path

    def markdown(self) -> str:
        """Return the page for people: the verdict first."""
        parts = [f"# {self.summary}", f"Exit code {self.code}."]
        if self.remedy:
            parts.append(f"**What to do:** {self.remedy}")
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        if self.evidence:
            parts.append("## Evidence\n\n" + _block(self.evidence))
        rows = [f"| {phase.name} | {_clock(phase.began_at)} | {_seconds(phase.lasted_s)} |" for phase in self.phases]
        parts.append("## Phases\n\n| phase | began (UTC) | lasted |\n| --- | --- | --- |\n" + "\n".join(rows))
        if self.log_tail:
            parts.append(
                f"## The engine's last lines\n\nAll of them are in `{self.log_path}`.\n\n" + _block(self.log_tail)
            )
        return "\n\n".join(parts) + "\n"

    def data(self) -> dict[str, Any]:
        """Return the same for programs."""
        return {
            "code": self.code,
            "summary": self.summary,
            "remedy": self.remedy,
            "evidence": list(self.evidence),
            "phase": self.phase,
            "notes": list(self.notes),
            "status": dict(self.status),
            "log_tail": list(self.log_tail),
            "log_path": str(self.log_path),
        }


def write(report: Report, directory: Path, rank: int, masker: Masker) -> None:
    """Write both forms of a report.

    Raises:
        OSError: The directory cannot be written.
    """
    write_private(directory / f"report-{rank}.md", masker.mask_text(report.markdown()))
    write_private_json(directory / f"report-{rank}.json", masker.mask_value(report.data()))


def _block(lines: Sequence[str]) -> str:
    return "```text\n" + "\n".join(line.replace("```", "'''") for line in lines) + "\n```"


def _clock(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%H:%M:%S")


def _seconds(lasted_s: float | None) -> str:
    return "" if lasted_s is None else f"{lasted_s:.1f} s"
