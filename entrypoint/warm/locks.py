"""The locks that builders of compiled code leave behind when they are killed, and on which the next one waits for ever.

They are found, attributed to somebody, and removed only when it is proven that nobody holds them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from entrypoint.readable import duration
from entrypoint.warm.lock_finding import Lock, LockKind
from entrypoint.warm.lock_owner import CLOCK_SLACK_S, Alive, Openers, Owner, Vantage, openers, owner_by_pid, owner_of
from entrypoint.warm.lock_removal import Removal, remove
from entrypoint.warm.tree_use import User

ANY_BUILD_S: Final = 7200.0
"""No build has ever taken as long: the longest that was seen took six minutes."""
_ONLY_ALONE: Final = frozenset({LockKind.HELPER, LockKind.TRITON})


@dataclass(frozen=True, slots=True)
class Tenancy:
    """What is known of the tree that locks lie in.

    Attributes:
        alone: No other living run of this node uses it.
        local: No other node can see it.
        ours: This job alone ever writes it.
    """

    alone: bool
    local: bool
    ours: bool = False


class Standing(StrEnum):
    """What may be done about a lock."""

    STALE = "stale"
    """It is proven that nobody holds it: it may go."""
    LIVE = "live"
    """Somebody holds it: whoever needs it has to wait."""
    UNKNOWN = "unknown"
    """Somebody may hold it: it stays."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is thought of a lock, and why.

    Attributes:
        standing: What may be done about it.
        why: The reason, as a clause.
    """

    standing: Standing
    why: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A lock with its verdict.

    Attributes:
        lock: The lock.
        owner: Who holds it, as far as can be told.
        verdict: What is thought of it.
        sentence: The same in words, without a full stop.
    """

    lock: Lock
    owner: Owner
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class LockReport:
    """What became of locks.

    Attributes:
        removed: Those that nobody held.
        held: Those that somebody holds or may hold.
    """

    removed: tuple[Judged, ...] = ()
    held: tuple[Judged, ...] = ()


def judge(lock: Lock, owner: Owner, tenancy: Tenancy, job_ended: Callable[[Owner], bool], now_unix_s: float) -> Verdict:
    """Return whether a lock may be removed.

    Args:
        lock: The lock.
        owner: Who holds it, as far as can be told.
        tenancy: What is known of the tree.
        job_ended: Whether it is certain that the run or job of an owner has ended.
        now_unix_s: The time, in seconds since 1970.
    """
    if owner.alive is Alive.YES:
        return Verdict(Standing.LIVE, owner.how_known)
    by_itself = lock.in_tree and tenancy.alone and tenancy.local
    if lock.kind in _ONLY_ALONE and not by_itself:
        return Verdict(Standing.UNKNOWN, "another run may use this tree")
    if owner.alive is Alive.NO:
        return Verdict(Standing.STALE, owner.how_known)
    proof = _proof(lock, owner, tenancy, job_ended, now_unix_s)
    return Verdict(Standing.STALE, proof) if proof else Verdict(Standing.UNKNOWN, owner.how_known)


def _proof(lock: Lock, owner: Owner, tenancy: Tenancy, job_ended: Callable[[Owner], bool], now_unix_s: float) -> str:
    """Return what proves that nobody holds a lock whose holder cannot be looked at; empty where nothing does."""
    if lock.kind is LockKind.TRITON:  # kept open by nobody, so that only its process tells
        return ""
    if (owner.job or owner.run_directory) and job_ended(owner):
        return f"job {owner.job} has ended" if owner.job else "its run has ended"
    if lock.in_tree and tenancy.alone and tenancy.local:
        return "no other run uses this tree, and no process here has it open"
    if lock.in_tree and tenancy.ours and now_unix_s - owner.since_unix_s > ANY_BUILD_S:
        return "it is older than any build, and this job alone writes here"
    return ""


def clear(
    locks: Iterable[Lock],
    tenancy: Tenancy,
    vantage: Vantage,
    now_unix_s: float,
    *,
    others: Iterable[User] = (),
    job_ended: Callable[[Owner], bool] = lambda _: False,
) -> LockReport:
    """Remove the locks that nobody holds; return what was removed and who holds the rest.

    A lock that is taken by somebody after it was found stays.

    Args:
        locks: What was found.
        tenancy: What is known of the tree that they lie in.
        vantage: From where processes are looked at.
        now_unix_s: The time, in seconds since 1970.
        others: The other runs that have registered in the tree.
        job_ended: Whether it is certain that the run or job of an owner has ended.
    """
    known = tuple(others)
    removed: list[Judged] = []
    held: list[Judged] = []
    for lock, found in _owners(tuple(locks), tenancy, vantage):
        owner = _attributed(found, known)
        verdict = judge(lock, owner, tenancy, job_ended, now_unix_s)
        outcome, problem = (
            remove(lock.path, lock.status) if verdict.standing is Standing.STALE else (Removal.REFUSED, "")
        )
        if outcome is Removal.REMOVED:
            removed.append(Judged(lock, owner, verdict, _removed_sentence(lock, owner, verdict, now_unix_s)))
        elif outcome is Removal.TAKEN:
            verdict = Verdict(Standing.LIVE, "it has been taken anew")
            held.append(Judged(lock, owner, verdict, f"{lock.name} has just been taken anew"))
        elif outcome is Removal.REFUSED:
            if problem:
                verdict = Verdict(Standing.UNKNOWN, f"{verdict.why}, but it cannot be removed: {problem}")
            held.append(Judged(lock, owner, verdict, _held_sentence(lock, owner, verdict, now_unix_s)))
    return LockReport(tuple(removed), tuple(held))


def _owners(locks: tuple[Lock, ...], tenancy: Tenancy, vantage: Vantage) -> Iterator[tuple[Lock, Owner]]:
    """Yield each lock with its owner, from one look at all processes."""
    if not locks:
        return
    opened = openers({(lock.status.st_dev, lock.status.st_ino): lock.path for lock in locks}, vantage)
    for lock in locks:
        if lock.kind is LockKind.TRITON:
            yield lock, _maker(lock, opened, vantage)
        else:
            local = tenancy.local if lock.in_tree else lock.kind is LockKind.TUNED_TABLE
            yield lock, owner_of(lock.path, lock.status, opened, vantage, local=local)


def _maker(lock: Lock, opened: Openers, vantage: Vantage) -> Owner:
    """Return the process that a temporary directory of Triton is named by: ``tmp.pid_<pid>_<uuid>``."""
    word = lock.path.name.removeprefix("tmp.pid_").partition("_")[0]
    if not word.isdecimal():
        return Owner(None, "", lock.status.st_mtime, "", Alive.UNKNOWN, "its name does not say who made it")
    return owner_by_pid(int(word), lock.status.st_mtime, opened, vantage)


def _attributed(owner: Owner, others: tuple[User, ...]) -> Owner:
    """Return the owner with its job, where just one run had registered that can have made the lock."""
    if owner.job or owner.alive is Alive.YES:
        return owner
    latest_unix_s = owner.since_unix_s + CLOCK_SLACK_S
    candidates = [user for user in others if owner.host in ("", user.host) and user.started_unix_s <= latest_unix_s]
    if len(candidates) != 1:
        return owner
    return replace(owner, job=candidates[0].job, run_directory=candidates[0].run_directory)


def _held_sentence(lock: Lock, owner: Owner, verdict: Verdict, now_unix_s: float) -> str:
    age = _age(owner, now_unix_s)
    if verdict.standing is Standing.LIVE:
        return f"{_name(owner)} has held {lock.name} for {age}"
    return f"{_name(owner)} may hold {lock.name}, made {age} ago: {verdict.why}"


def _removed_sentence(lock: Lock, owner: Owner, verdict: Verdict, now_unix_s: float) -> str:
    by = "" if owner.pid is None else f" by {_name(owner)}"
    return f"removed {lock.name}, made {_age(owner, now_unix_s)} ago{by}: {verdict.why}"


def _name(owner: Owner) -> str:
    if owner.pid is None:
        return f"job {owner.job}" if owner.job else "somebody"
    return f"pid {owner.pid} on {owner.host}" + (f" (job {owner.job})" if owner.job else "")


def _age(owner: Owner, now_unix_s: float) -> str:
    return duration(max(0, round(now_unix_s - owner.since_unix_s)))
