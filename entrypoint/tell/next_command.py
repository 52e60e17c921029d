"""The next command: what to type after a run has ended, by its verdict."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.verdict.verdict import Verdict

_CHECKED_BEFORE = frozenset(
    {Cause.CONFIGURATION, Cause.CHECKPOINT, Cause.PERMISSION, Cause.STORAGE, Cause.PORT, Cause.DEVICE}
)
"""What ``supervise check`` looks at, so that it tells whether a change has helped before node time is spent."""
_LINES_ABOVE = 10


def next_command(
    verdict: Verdict, *, log_path: Path, words: Sequence[str] | None = (), job_id: str | None = None
) -> str:
    """Return lines for a shell; empty when the run ended as asked.

    Args:
        verdict: How the run ended and why.
        log_path: The engine's log.
        words: The options that the run was started with, behind ``supervise``; None where they are not known.
        job_id: The Slurm job that can be requeued; None without one.
    """
    if verdict.cause is Cause.STOPPED:
        return ""
    return "\n".join(
        line
        for line in (
            _look(verdict, log_path),
            _check(verdict, words),
            _again(verdict, words, job_id),
        )
        if line
    )


def _look(verdict: Verdict, log_path: Path) -> str:
    """Return how to read the log where it tells; where it does not and the cause is clear, there is no need to."""
    path = shlex.quote(str(log_path))
    if verdict.line_number is not None:
        return f"less +{max(verdict.line_number - _LINES_ABOVE, 1)} {path}"
    if verdict.confidence in {Confidence.UNKNOWN, Confidence.POSSIBLE}:
        return f"tail -n 200 {path}"
    return ""


def _check(verdict: Verdict, words: Sequence[str] | None) -> str:
    if words is None or verdict.cause not in _CHECKED_BEFORE:
        return ""
    return f"{shlex.join(['supervise', 'check', *words])}   # after the change; starts nothing"


def _again(verdict: Verdict, words: Sequence[str] | None, job_id: str | None) -> str:
    if words is None or verdict.retry not in {Retry.HERE, Retry.ELSEWHERE}:
        return ""
    if job_id is not None:
        return f"scontrol requeue {shlex.quote(job_id)}"
    where = "   # on another node" if verdict.retry is Retry.ELSEWHERE else ""
    return f"{shlex.join(['supervise', *words])}{where}"
