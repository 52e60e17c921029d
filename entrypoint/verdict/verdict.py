"""The verdict: what ended a run, in plain words, with the evidence and what to do."""

from dataclasses import dataclass

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.outcome import ExitCode


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended and why.

    Attributes:
        code: The exit code.
        summary: One sentence that says what happened.
        remedy: What to do, in one sentence or two; empty when there is nothing to do.
        evidence: Lines that show it, oldest first.
        phase: The state in which it happened.
        cause: The kind of the cause.
        confidence: How sure that is.
        retry: Whether starting again can help.
        signature: Identifier of the signature or rule that explains it; empty without one.
        root: Who failed first: rank, process, and how it ended, in words; empty where that is not known.
        cascades: What failed because of it, in the order of time, one line each.
        line_number: Where in the root's log it is said, from 1; None where it is not.
        reasons: Why this is believed, one sentence each.
    """

    code: ExitCode
    summary: str
    remedy: str
    evidence: tuple[str, ...]
    phase: str
    cause: Cause
    confidence: Confidence
    retry: Retry
    signature: str = ""
    root: str = ""
    cascades: tuple[str, ...] = ()
    line_number: int | None = None
    reasons: tuple[str, ...] = ()
