"""The explanation: from the ends of all ranks to one verdict, never surer than its evidence."""

import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from entrypoint.cause import CONSEQUENCES, Cause, Confidence
from entrypoint.engine.signature import Role, SignatureHit
from entrypoint.exit_status import ExitStatus
from entrypoint.verdict.candidates import SAYS_SO, Candidate, candidates
from entrypoint.verdict.evidence import RankEnd
from entrypoint.verdict.limits import named_limit
from entrypoint.verdict.oom import OutOfMemory, nobody_was_out_of_memory
from entrypoint.verdict.remedies import memory_remedy
from entrypoint.verdict.verdict import Verdict
from entrypoint.verdict.wording import first_upper, how_it_ended, with_fields

EVIDENCE_LINES = 12
CASCADES_KEPT = 20
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS})
_ACTED_UPON = frozenset({Confidence.CERTAIN, Confidence.PROBABLE})


def explain(ends: Sequence[RankEnd]) -> Verdict:
    """Return why a run ended.

    Args:
        ends: What is known of the end of each rank, at least one.

    Raises:
        ValueError: There is no rank.
    """
    if not ends:
        raise ValueError("nothing is known of any rank")
    ranked = candidates(ends)
    if not ranked:
        return _without_failure(ends)
    root = ranked[0]
    said = _said_of(root, several=len(ends) > 1)
    verdict = _verdict(root.end, said, root.end.phase)
    return replace(
        verdict,
        root=_who(root, several=len(ends) > 1),
        cascades=tuple(_cascades(root, ends)),
        line_number=said.line_number,
    )


@dataclass(frozen=True, slots=True)
class _Said:
    """What a verdict says, before it is put together.

    Attributes:
        cause: The kind of the cause.
        confidence: How sure that is.
        summary: What happened.
        remedy: What to do.
        lines: Lines that show it.
        signature: Identifier of what explains it.
        line_number: Where it is said.
        reasons: Why this is believed.
    """

    cause: Cause
    confidence: Confidence
    summary: str
    remedy: str
    lines: tuple[str, ...] = ()
    signature: str = ""
    line_number: int | None = None
    reasons: tuple[str, ...] = ()


def _verdict(end: RankEnd, said: _Said, phase: str) -> Verdict:
    """Return a verdict; what is merely possible has the consequences of what is not known."""
    acted_upon = said.confidence in _ACTED_UPON
    consequence = CONSEQUENCES[said.cause if acted_upon else Cause.UNKNOWN]
    return Verdict(
        code=consequence.code,
        summary=said.summary,
        remedy=said.remedy,
        evidence=_evidence(end, said.lines),
        phase=phase,
        cause=said.cause,
        confidence=said.confidence,
        retry=consequence.retry,
        signature=said.signature,
        reasons=said.reasons,
    )


def _said_of(root: Candidate, *, several: bool) -> _Said:
    ended = how_it_ended(root.end, named=several)
    if root.memory is not None:
        return _said_of_memory(root, root.memory, ended)
    if root.hit is not None:
        return _said_of_signature(root, root.hit, ended)
    return _said_of_status(root, ended)


def _said_of_memory(root: Candidate, memory: OutOfMemory, ended: str) -> _Said:
    heads = {
        Confidence.CERTAIN: f"The engine ran out of memory. {memory.reasons[0]}",
        Confidence.PROBABLE: f"The engine probably ran out of memory. {memory.reasons[0]}",
    }
    head = heads.get(memory.confidence, "The engine was killed, and memory may have been the reason.")
    return _Said(
        Cause.MEMORY,
        memory.confidence,
        _sentences(head, ended, _process(root)),
        memory_remedy(root.end),
        memory.lines + _lines_of_death(root),
        signature="oom",
        line_number=root.death.number if root.death else None,
        reasons=memory.reasons,
    )


def _said_of_signature(root: Candidate, hit: SignatureHit, ended: str) -> _Said:
    row = hit.signature
    limit = named_limit(hit, root.end)
    because = first_upper(with_fields(row.because, hit.fields))
    return _Said(
        row.cause,
        Confidence.CERTAIN if root.tier == SAYS_SO else Confidence.PROBABLE,
        _sentences(because, limit, ended),
        with_fields(row.remedy, hit.fields),
        (hit.line,),
        signature=row.id,
        line_number=hit.number,
        reasons=(f"Line {hit.number} of {root.end.log.name} says so.", *([limit] if limit else [])),
    )


def _said_of_status(root: Candidate, ended: str) -> _Said:
    end = root.end
    status = root.death.status if root.death else end.status
    cause, confidence, reason = _told_by_status(status, end)
    told = f"Its log says: {end.log.telling}" if end.log.telling else "Its log does not say why."
    return _Said(
        cause,
        confidence,
        _sentences(ended, _process(root), reason, told),
        f"Read the end of {end.log.name}.",
        _lines_of_death(root),
        line_number=root.death.number if root.death else None,
        reasons=(reason,) if reason else (),
    )


def _told_by_status(status: ExitStatus | None, end: RankEnd) -> tuple[Cause, Confidence, str]:
    """Return what an exit status alone tells: cause, how sure, and a sentence."""
    if end.unasked and end.log.stop_line is not None:
        sentence = "It says that it was told to: somebody sent SIGTERM to the engine itself, not to supervise."
        return Cause.UNKNOWN, Confidence.UNKNOWN, sentence
    if status is None or status.signal is None:
        return Cause.UNKNOWN, Confidence.UNKNOWN, ""
    if status.signal in _CRASHES:
        return Cause.ENGINE, Confidence.PROBABLE, f"{first_upper(str(status))} is a crash inside the engine."
    if status.signal == signal.SIGKILL and nobody_was_out_of_memory(end):
        sentence = "The kernel counted no out-of-memory kill, so that somebody sent this signal."
        return Cause.UNKNOWN, Confidence.UNKNOWN, sentence
    return Cause.UNKNOWN, Confidence.UNKNOWN, ""


def _process(root: Candidate) -> str:
    """Return which process of the engine ended first, where it was not the main one."""
    return f"Its process {root.death.name} ended with {root.death.status}." if root.death else ""


def _sentences(*sentences: str | None) -> str:
    """Return the sentences that there are as one text."""
    return " ".join(filter(None, sentences))


def _who(root: Candidate, *, several: bool) -> str:
    tags = root.hit.rank_tags if root.hit else root.death.name if root.death else ""
    rank = f"rank {root.end.rank}" if several or not tags else ""
    return " ".join(filter(None, (rank, tags)))


def _lines_of_death(root: Candidate) -> tuple[str, ...]:
    return (root.death.line,) if root.death else ()


def _evidence(end: RankEnd, lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that show it and the last ones of the log, each once."""
    return tuple(dict.fromkeys((*lines, *end.log.tail[-EVIDENCE_LINES:])))


# What followed, and what is no failure


def _cascades(root: Candidate, ends: Sequence[RankEnd]) -> Iterator[str]:
    """Yield what failed because of the root, in the order of time, one line each."""
    followed = [
        (hit.unix_s or 0.0, end.rank, hit.number, hit.line)
        for end in ends
        for hit in end.log.hits
        if hit is not root.hit and hit.signature.role in {Role.ROOT, Role.CASCADE} and not hit.health_after
    ]
    followed += [
        (death.unix_s or 0.0, end.rank, death.number, death.line)
        for end in ends
        for death in end.log.child_deaths
        if death is not root.death
    ]
    shown = dict.fromkeys((rank, line) for _, rank, _, line in sorted(followed))
    for rank, line in list(shown)[:CASCADES_KEPT]:
        yield f"rank {rank}: {line}" if len(ends) > 1 else line


def _without_failure(ends: Sequence[RankEnd]) -> Verdict:
    """Return the verdict where no line and no status names a failure of this engine."""
    several = len(ends) > 1
    suffering = [(end, hit) for end in ends for hit in end.log.hits if _is_last_cascade(hit)]
    from_elsewhere = [(end, hit) for end, hit in suffering if hit.signature.cause is Cause.NETWORK]
    if from_elsewhere:
        end = from_elsewhere[0][0]
        said = _Said(
            Cause.UNKNOWN,
            Confidence.UNKNOWN,
            f"What {'these logs show' if several else 'this log shows'} follows from a failure elsewhere.",
            "Look at the logs of the other ranks, and at what Slurm says.",
            tuple(hit.line for _, hit in from_elsewhere),
        )
    elif all(end.log.stop_line is not None for end in ends):
        end = ends[0]
        said = _Said(Cause.STOPPED, Confidence.PROBABLE, "The engine was asked to stop, and did.", "")
    elif suffering:
        end = suffering[0][0]
        said = _failed_somehow(end, tuple(hit.line for _, hit in suffering), several=several)
    else:
        end = ends[0]
        said = _Said(
            Cause.UNKNOWN,
            Confidence.UNKNOWN,
            _sentences("The log shows no failure.", how_it_ended(end, named=several)),
            "If the run is over, see what Slurm and the node say about its end.",
        )
    return _verdict(end, said, end.phase)


def _failed_somehow(end: RankEnd, lines: tuple[str, ...], *, several: bool) -> _Said:
    told = f"Its log says: {end.log.telling}" if end.log.telling else "Its log does not say why."
    return _Said(
        Cause.UNKNOWN,
        Confidence.UNKNOWN,
        _sentences("The engine failed, in a way that is not known.", how_it_ended(end, named=several), told),
        f"Read the end of {end.log.name}.",
        lines,
    )


def _is_last_cascade(hit: SignatureHit) -> bool:
    return hit.signature.role is Role.CASCADE and not hit.health_after
