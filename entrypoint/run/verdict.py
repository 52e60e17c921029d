"""The verdict on a run: from why it is over, and from the evidence, to what people are told."""

from dataclasses import replace
from typing import assert_never

from entrypoint.cause import CONSEQUENCES, Cause, Confidence
from entrypoint.engine.signature import Role, SignatureHit
from entrypoint.outcome import ExitCode
from entrypoint.run.endings import (
    Disproved,
    Ending,
    EngineDied,
    Faulted,
    Hung,
    MemoryLow,
    PortTaken,
    Refused,
    SpawnFailed,
    Stalled,
    StopAsked,
)
from entrypoint.run.hang import Standstill
from entrypoint.run.limits import READY_SETTING
from entrypoint.run.states import BEFORE_ENGINE
from entrypoint.verdict.evidence import LogEvidence
from entrypoint.verdict.explain import explain
from entrypoint.verdict.verdict import Verdict
from entrypoint.verdict.wording import first_upper, size, with_fields

EVIDENCE_LINES = 12
_CAUSE_OF_CODE = {
    ExitCode.NODE_UNFIT: Cause.DEVICE,
    ExitCode.DIRECTORY_UNUSABLE: Cause.STORAGE,
    ExitCode.NOT_PERMITTED: Cause.PERMISSION,
}
"""What a finding's exit code says about its cause; any other one is a matter of configuration."""


_WAITING = frozenset({Cause.HANG, Cause.NETWORK})
"""Causes of which a line that ends nothing can still say what is waited for."""


def judge(ending: Ending, log: LogEvidence) -> Verdict:  # noqa: C901, PLR0911  # one per ending
    """Return the verdict of a run.

    Args:
        ending: Why it is over.
        log: What the log of the engine that ran last holds.
    """
    match ending:
        case StopAsked():
            return _plain(
                Cause.STOPPED,
                f"Stopped as asked by {ending.source}, while {ending.during}.",
                "",
                (),
                str(ending.during),
            )
        case Refused():
            return _refused(ending)
        case Stalled():
            return _stalled(ending, log)
        case Hung():
            return _hung(ending, log)
        case MemoryLow():
            return _memory_low(ending, log)
        case EngineDied():
            return explain([ending.end])
        case PortTaken():
            found = ending.finding
            verdict = _plain(Cause.PORT, found.message, found.remedy, (), str(ending.phase))
            return replace(verdict, signature=found.rule)
        case SpawnFailed():
            return _plain(
                Cause.CONFIGURATION,
                f"The engine's command cannot be executed: {ending.reason}.",
                "See whether engine.python can be started on this node, and whether a value in [engine.args] or "
                "[engine.env] is longer than the system takes (128 KiB).",
                (),
                "starting",
            )
        case Disproved():
            return _disproved(ending)
        case Faulted():
            return _plain(
                Cause.SUPERVISOR,
                f"The supervisor itself failed: {ending.traceback[-1].strip()}",
                "This is a fault of supervise, not of the engine or the settings: report it with this page.",
                ending.traceback,
                "",
            )
        case _:
            assert_never(ending)


def _plain(cause: Cause, summary: str, remedy: str, evidence: tuple[str, ...], phase: str) -> Verdict:
    """Return a verdict about something that the supervisor saw itself."""
    consequence = CONSEQUENCES[cause]
    return Verdict(consequence.code, summary, remedy, evidence, phase, cause, Confidence.CERTAIN, consequence.retry)


def _refused(ending: Refused) -> Verdict:
    first, *others = ending.findings
    more = f" ({len(others)} more)" if others else ""
    cause = _CAUSE_OF_CODE.get(first.code, Cause.CONFIGURATION)
    evidence = tuple(f"{finding.rule}: {finding.message}" for finding in ending.findings)
    verdict = _plain(cause, f"{first.message}{more}", first.remedy, evidence, "checking")
    return replace(verdict, code=first.code, signature=first.rule)


def _stalled(ending: Stalled, log: LogEvidence) -> Verdict:
    seen = f"; the last sign was {ending.progress}" if ending.progress else ""
    where = f"See the last lines of {log.name}. "
    if ending.phase in BEFORE_ENGINE:
        summary, where = f"Gave up after {ending.lasted_s:.0f} s of {ending.phase}.", ""
    elif ending.setting == READY_SETTING:
        summary = f"The engine was not ready in time: it was still {ending.phase}, for {ending.lasted_s:.0f} s{seen}."
    else:
        summary = (
            f"The engine stalled while {ending.phase}: {ending.lasted_s:.0f} s in this phase, nothing new for "
            f"{ending.still_s:.0f} s{seen}."
        )
    verdict = _plain(
        Cause.HANG,
        summary,
        f"{where}If it was only slow, raise {ending.setting}; a requeue on another node may help.",
        (*ending.stacks, *log.tail[-EVIDENCE_LINES:]),
        str(ending.phase),
    )
    return _with_last_sign(verdict, log)


_STILL = {
    Standstill.TOKENS: "no token came",
    Standstill.STEPS: "its scheduler finished no step",
    Standstill.ANSWERS: "no token came, and it does not answer either",
}


def _hung(ending: Hung, log: LogEvidence) -> Verdict:
    still = ending.still
    had = f" with {still.requests} requests at work" if still.requests else ""
    verdict = _plain(
        Cause.HANG,
        f"The engine hung while serving{had}: its processes live, and for {still.for_s:.0f} s {_STILL[still.what]}.",
        "See where its processes stand. If a single step can take so long here, raise watch.stall_s.",
        (*ending.stacks, *log.tail[-EVIDENCE_LINES:]),
        str(ending.phase),
    )
    return _with_last_sign(verdict, log)


def _memory_low(ending: MemoryLow, log: LogEvidence) -> Verdict:
    low = ending.low
    held = f" Most was held by {', '.join(low.owners)}." if low.owners else ""
    verdict = _plain(
        Cause.MEMORY,
        f"Memory was about to run out, and the run was ended before it did: {size(low.headroom_bytes)} were left, and "
        f"the floor of {size(low.floor_bytes)} was {low.seconds_to_floor:.0f} s away.{held}",
        "Lower engine.mem_fraction_static or engine.max_running_requests, or take more nodes.",
        log.tail[-EVIDENCE_LINES:],
        str(ending.phase),
    )
    return replace(verdict, confidence=Confidence.PROBABLE)


def _with_last_sign(verdict: Verdict, log: LogEvidence) -> Verdict:
    """Add what a line of the log is known to mean that can explain why nothing moves.

    That is a failure that the engine printed and did not end of, which is then the reason (an HTTP port that is taken
    leaves 0.5.23 waiting for its own first request), or else the last sign of waiting, such as a lock that nobody will
    release.
    """
    signs = [hit for hit in log.hits if not hit.health_after]
    failures = [hit for hit in signs if hit.signature.role is Role.ROOT]
    waiting = [hit for hit in signs if hit.signature.role is Role.BENIGN and hit.signature.cause in _WAITING]
    if failures:
        return _because_of(failures[0], verdict)
    return _pointing_at(waiting[-1], verdict) if waiting else verdict


def _pointing_at(hit: SignatureHit, verdict: Verdict) -> Verdict:
    return replace(
        verdict,
        signature=hit.signature.id,
        reasons=(*verdict.reasons, f"The last line that is known to mean something: {hit.line}"),
        remedy=f"{verdict.remedy} {with_fields(hit.signature.remedy, hit.fields)}",
        line_number=hit.number,
    )


def _because_of(hit: SignatureHit, verdict: Verdict) -> Verdict:
    row, consequence = hit.signature, CONSEQUENCES[hit.signature.cause]
    return replace(
        verdict,
        code=consequence.code,
        cause=row.cause,
        confidence=Confidence.PROBABLE,
        retry=consequence.retry,
        summary=f"{first_upper(with_fields(row.because, hit.fields))} {verdict.summary}",
        remedy=with_fields(row.remedy, hit.fields),
        signature=row.id,
        evidence=tuple(dict.fromkeys((hit.line, *verdict.evidence))),
        reasons=(*verdict.reasons, f"Line {hit.number} of the log says so, and the engine lived on."),
        line_number=hit.number,
    )


def _disproved(ending: Disproved) -> Verdict:
    failures = ending.result.failures
    first = failures[0]
    evidence = tuple(f"{failure.kind}: {failure.message} What came instead: {failure.evidence}" for failure in failures)
    return _plain(Cause.SELF_CHECK, f"The self-check failed. {first.message}", first.remedy, evidence, "proving")
