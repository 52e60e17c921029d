"""What a report holds, and the same as data for programs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from entrypoint import __version__
from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.findings import Finding
from entrypoint.tell.board import Phase
from entrypoint.tell.report_settings import SettingShown
from entrypoint.verdict.evidence import MemoryEvidence
from entrypoint.verdict.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a report holds.

    Attributes:
        code: Exit code.
        summary: What happened, in a sentence or a few.
        remedy: What to do.
        evidence: Lines that show it.
        phase: The state in which it happened.
        phases: The states with their durations.
        notes: Other things worth knowing, such as requests that were lost.
        status: The whole picture at the end.
        log_tail: The engine's last lines, oldest first.
        log_path: Where its whole log is.
        cause: The kind of the cause.
        confidence: How sure that is.
        retry: Whether starting again can help.
        signature: Identifier of what explains it; empty without one.
        root: Who failed first; empty where that is not known.
        cascades: What failed because of it.
        reasons: Why this is believed, one sentence each.
        line_number: Where in the log it is said, from 1.
        log_lines: How many lines the log has, which gives the last ones their numbers; None where unknown.
        memory: How memory went; None where nobody looked.
        available_gib: The last memory figure that the engine printed; None without one.
        settings: The settings that matter, with the layer that set each.
        findings: What checks had warned of before.
        next_command: What to type next, ready for a shell; empty where there is nothing to do.
        generated_unix_s: When the report was made.
        version: Which version of the supervisor made it.
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
    cause: Cause = Cause.UNKNOWN
    confidence: Confidence = Confidence.UNKNOWN
    retry: Retry = Retry.HERE
    signature: str = ""
    root: str = ""
    cascades: Sequence[str] = ()
    reasons: Sequence[str] = ()
    line_number: int | None = None
    log_lines: int | None = None
    memory: MemoryEvidence | None = None
    available_gib: float | None = None
    settings: Sequence[SettingShown] = ()
    findings: Sequence[Finding] = ()
    next_command: str = ""
    generated_unix_s: float = field(default_factory=time.time)
    version: str = __version__

    @classmethod
    def of(
        cls,
        verdict: Verdict,
        *,
        phases: Sequence[Phase],
        log_tail: Sequence[str],
        log_path: Path,
        log_lines: int | None = None,
        notes: Sequence[str] = (),
        status: Mapping[str, Any] = MappingProxyType({}),
        memory: MemoryEvidence | None = None,
        available_gib: float | None = None,
        settings: Sequence[SettingShown] = (),
        findings: Sequence[Finding] = (),
        next_command: str = "",
    ) -> "Report":
        """Return the report of a verdict; the arguments are the attributes of these names."""
        return cls(
            code=int(verdict.code),
            summary=verdict.summary,
            remedy=verdict.remedy,
            evidence=verdict.evidence,
            phase=verdict.phase,
            cause=verdict.cause,
            confidence=verdict.confidence,
            retry=verdict.retry,
            signature=verdict.signature,
            root=verdict.root,
            cascades=verdict.cascades,
            reasons=verdict.reasons,
            line_number=verdict.line_number,
            phases=phases,
            log_tail=log_tail,
            log_path=log_path,
            log_lines=log_lines,
            notes=notes,
            status=status,
            memory=memory,
            available_gib=available_gib,
            settings=settings,
            findings=findings,
            next_command=next_command,
        )

    def data(self) -> dict[str, Any]:
        """Return everything for programs."""
        return {
            "code": self.code,
            "summary": self.summary,
            "remedy": self.remedy,
            "cause": self.cause,
            "confidence": self.confidence,
            "retry": self.retry,
            "signature": self.signature,
            "root": self.root,
            "line_number": self.line_number,
            "reasons": list(self.reasons),
            "evidence": list(self.evidence),
            "cascades": list(self.cascades),
            "phase": self.phase,
            "phases": [
                {"name": phase.name, "began_unix_s": phase.began_at, "lasted_s": phase.lasted_s}
                for phase in self.phases
            ],
            "notes": list(self.notes),
            "next_command": self.next_command,
            "memory": None if self.memory is None else asdict(self.memory),
            "available_gib": self.available_gib,
            "settings": [asdict(setting) for setting in self.settings],
            "findings": [asdict(finding) for finding in self.findings],
            "status": dict(self.status),
            "log_tail": list(self.log_tail),
            "log_lines": self.log_lines,
            "log_path": str(self.log_path),
            "generated_at": datetime.fromtimestamp(self.generated_unix_s, UTC).isoformat(timespec="seconds"),
            "version": self.version,
        }
