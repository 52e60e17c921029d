"""Findings: what a check has to say before node time is spent."""

from dataclasses import dataclass
from enum import StrEnum

from entrypoint.outcome import ExitCode, SuperviseError


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The run would fail or serve wrong answers: it is refused."""
    WARNING = "warning"
    """The run goes on, probably not as wanted."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule or a preflight check found.

    Attributes:
        rule: Stable identifier, in kebab case; ``rules.ignore`` silences it.
        severity: How much it matters.
        message: What is the case, in one sentence with the values at hand.
        remedy: What to change, in one sentence.
        setting: Dotted name of the setting concerned, when there is one.
        code: Exit code of a run refused for this finding (errors only).
    """

    rule: str
    severity: Severity
    message: str
    remedy: str
    setting: str | None = None
    code: ExitCode = ExitCode.CONFIGURATION


def error_finding(rule: str, error: SuperviseError) -> Finding:
    """Return an error that was raised as what a rule found."""
    return Finding(rule, Severity.ERROR, error.message, error.remedy, code=error.code)


def errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings that refuse a run, in their order."""
    return tuple(finding for finding in findings if finding.severity is Severity.ERROR)


def without_ignored(findings: tuple[Finding, ...], ignored: frozenset[str]) -> tuple[Finding, ...]:
    """Return the findings whose rule is not ignored, in their order."""
    return tuple(finding for finding in findings if finding.rule not in ignored)
