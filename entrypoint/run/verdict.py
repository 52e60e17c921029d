"""The verdict: what ended a run, in plain words, with the evidence and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from entrypoint.outcome import ExitCode
from entrypoint.run.endings import Disproved, Ending, EngineDied, Faulted, Refused, SpawnFailed, Stalled, StopAsked
from entrypoint.run.limits import READY_SETTING
from entrypoint.run.states import BEFORE_ENGINE, SERVING
from entrypoint.verdict.telling import REFUSAL, telling_line

ARGPARSE_EXIT_CODE = 2
EVIDENCE_LINES = 12


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended and why.

    Attributes:
        code: The exit code.
        summary: One sentence that says what happened.
        remedy: One sentence that says what to do; empty when there is nothing to do.
        evidence: Lines that show it, oldest first.
        phase: The state in which it happened.
    """

    code: ExitCode
    summary: str
    remedy: str
    evidence: tuple[str, ...]
    phase: str


def judge(ending: Ending, tail: Sequence[str], log_name: str) -> Verdict:  # noqa: PLR0911  # one per ending
    """Return the verdict of a run.

    Args:
        ending: Why it is over.
        tail: The engine's last lines, oldest first, secrets masked.
        log_name: Where the whole log is.
    """
    match ending:
        case StopAsked():
            return _stopped(ending)
        case Refused():
            return _refused(ending)
        case Stalled():
            return _stalled(ending, tail, log_name)
        case EngineDied():
            return _died(ending, tail, log_name)
        case SpawnFailed():
            return Verdict(
                ExitCode.CONFIGURATION,
                f"The engine's command cannot be executed: {ending.reason}.",
                "See whether engine.python can be started on this node, and whether a value in [engine.args] or "
                "[engine.env] is longer than the system takes (128 KiB).",
                (),
                "starting",
            )
        case Disproved():
            return _disproved(ending)
        case Faulted():
            return Verdict(
                ExitCode.ENGINE_FAILED,
                f"The supervisor itself failed: {ending.traceback[-1].strip()}",
                "This is a fault of supervise, not of the engine or the settings: report it with this page.",
                ending.traceback,
                "",
            )
        case _:
            assert_never(ending)


def _stopped(ending: StopAsked) -> Verdict:
    return Verdict(
        ExitCode.STOPPED, f"Stopped as asked by {ending.source}, while {ending.during}.", "", (), str(ending.during)
    )


def _refused(ending: Refused) -> Verdict:
    first, *others = ending.findings
    more = f" ({len(others)} more)" if others else ""
    return Verdict(
        first.code,
        f"{first.message}{more}",
        first.remedy,
        tuple(f"{finding.rule}: {finding.message}" for finding in ending.findings),
        "checking",
    )


def _stalled(ending: Stalled, tail: Sequence[str], log_name: str) -> Verdict:
    seen = f"; the last sign was {ending.progress}" if ending.progress else ""
    where = f"See the last lines of {log_name}. "
    if ending.phase in BEFORE_ENGINE:
        summary, where = f"Gave up after {ending.lasted_s:.0f} s of {ending.phase}.", ""
    elif ending.setting == READY_SETTING:
        summary = f"The engine was not ready in time: it was still {ending.phase}, for {ending.lasted_s:.0f} s{seen}."
    else:
        summary = (
            f"The engine stalled while {ending.phase}: {ending.lasted_s:.0f} s in this phase, nothing new for "
            f"{ending.still_s:.0f} s{seen}."
        )
    return Verdict(
        ExitCode.RETRY_ELSEWHERE,
        summary,
        f"{where}If it was only slow, raise {ending.setting}; a requeue on another node may help.",
        tuple(tail[-EVIDENCE_LINES:]),
        str(ending.phase),
    )


def _died(ending: EngineDied, tail: Sequence[str], log_name: str) -> Verdict:
    telling = telling_line(tail)
    how = str(ending.status) if ending.status else "a signal to its warden; how the engine itself ended was not seen"
    told = f" Its log says: {telling}" if telling else " Its log does not say why."
    evidence = tuple(tail[-EVIDENCE_LINES:])
    phase = str(ending.phase)
    if ending.status and ending.status.code == ARGPARSE_EXIT_CODE and telling and REFUSAL.match(telling):
        return Verdict(
            ExitCode.CONFIGURATION,
            f"The engine refused its command line.{told}",
            "Correct the flag; supervise --dry-run checks flags once the engine has been asked for its list.",
            evidence,
            phase,
        )
    when = "while serving" if ending.phase in SERVING else f"while {phase}"
    return Verdict(
        ExitCode.ENGINE_FAILED,
        f"The engine ended by itself {when}, after {ending.lived_s:.1f} s, with {how}.{told}",
        f"Read the end of {log_name}.",
        evidence,
        phase,
    )


def _disproved(ending: Disproved) -> Verdict:
    failures = ending.result.failures
    first = failures[0]
    return Verdict(
        ExitCode.SELF_CHECK_FAILED,
        f"The self-check failed. {first.message}",
        first.remedy,
        tuple(f"{failure.kind}: {failure.message} What came instead: {failure.evidence}" for failure in failures),
        "proving",
    )
