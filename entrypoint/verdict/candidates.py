"""Candidates: everything that could be the first failure of a run, in the order in which it can have begun."""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from entrypoint.cause import Confidence
from entrypoint.engine.signature import Role, SignatureHit
from entrypoint.verdict.evidence import ChildDeath, RankEnd
from entrypoint.verdict.limits import WAITED_IN_VAIN, waited_s
from entrypoint.verdict.oom import OutOfMemory, out_of_memory, was_killed

HEALTH_OF_THE_DYING = 20
"""Signs of ordinary work that may follow a fatal line: other ranks finish the batch at hand."""
WAITING_SLACK_S = 5.0
"""Who waited for somebody began to wait a moment after that one failed."""
LATE = float("inf")
SAYS_SO, WAITED, UNEXPLAINED = range(3)
"""Tiers: a failure that says so itself, somebody who waited in vain, an end that nobody explains."""
_SENT = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL})
"""Signals that somebody sends, rather than that a fault brings."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that could have been the first failure.

    Attributes:
        end: The rank that it happened to.
        began_s: Unix time when it can have begun; infinite where no time is known.
        tier: How much it explains, the lower the more.
        number: Line in that rank's log, for the order within it.
        hit: The line with a signature, where it is one.
        death: The process that ended, where it is one.
        memory: That memory was the cause, where it was.
    """

    end: RankEnd
    began_s: float
    tier: int
    number: int
    hit: SignatureHit | None = None
    death: ChildDeath | None = None
    memory: OutOfMemory | None = None


def candidates(ends: Sequence[RankEnd]) -> list[Candidate]:
    """Return what could have been the first failure, the most likely first.

    Teardown is no candidate: what follows a request to stop, and what the engine says while it kills itself. Nor is an
    end that nobody explains, where the same log holds a line that does.
    """
    found = [candidate for end in ends for candidate in _worth_most(list(_of_rank(end)))]
    return sorted(found, key=_order)


def _worth_most(of_rank: list[Candidate]) -> list[Candidate]:
    explained = [candidate for candidate in of_rank if candidate.tier < UNEXPLAINED]
    return explained or of_rank


def _order(candidate: Candidate) -> tuple[bool, float, int, int, int]:
    certain = candidate.memory is not None and candidate.memory.confidence is Confidence.CERTAIN
    began_s = candidate.began_s + (WAITING_SLACK_S if candidate.tier == WAITED else 0.0)
    return (not certain, began_s, candidate.tier, candidate.end.rank, candidate.number)


def _of_rank(end: RankEnd) -> Iterator[Candidate]:
    for hit in end.log.hits:
        if _may_be_root(hit, end):
            waiting = hit.signature.id in WAITED_IN_VAIN
            began_s = LATE if hit.unix_s is None else hit.unix_s - waited_s(hit, end)
            yield Candidate(end, began_s, WAITED if waiting else SAYS_SO, hit.number, hit=hit)
    memory = out_of_memory(end)
    killed = next((death for death in end.log.child_deaths if death.status.signal == signal.SIGKILL), None)
    if memory is not None:
        began_s = _or_late(killed.unix_s if killed else end.log.ended_unix_s)
        tier = UNEXPLAINED if memory.confidence is Confidence.POSSIBLE else SAYS_SO
        yield Candidate(end, began_s, tier, killed.number if killed else end.log.lines, death=killed, memory=memory)
    for death in end.log.child_deaths:
        if not _after_stop(death.number, end) and (memory is None or death is not killed):
            yield Candidate(end, _or_late(death.unix_s), _tier_of_death(death), death.number, death=death)
    if memory is None and _ended_badly_by_itself(end):
        yield Candidate(end, _or_late(end.log.ended_unix_s), UNEXPLAINED, end.log.lines)


def _may_be_root(hit: SignatureHit, end: RankEnd) -> bool:
    root = hit.signature.role is Role.ROOT
    return root and hit.health_after <= HEALTH_OF_THE_DYING and not _after_stop(hit.number, end)


def _after_stop(number: int, end: RankEnd) -> bool:
    return end.log.stop_line is not None and number > end.log.stop_line


def _tier_of_death(death: ChildDeath) -> int:
    """Return what the end of a process explains: a crash says so itself, an exit needs an explanation."""
    number = death.status.signal
    return UNEXPLAINED if number is None or number in _SENT else SAYS_SO


def _ended_badly_by_itself(end: RankEnd) -> bool:
    """Return whether the main process ended in a way that its own log must explain, or that was done to it."""
    if end.status is None or end.log.child_deaths:
        return False
    if end.status.signal == signal.SIGKILL:
        return was_killed(end)
    stopped_as_asked = end.log.stop_line is not None and end.status.code == 0 and not end.unasked
    return not stopped_as_asked


def _or_late(unix_s: float | None) -> float:
    return LATE if unix_s is None else unix_s
