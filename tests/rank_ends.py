"""Ends of ranks for tests, built from what matters in each."""

import re
from typing import Any

from entrypoint.cause import Cause
from entrypoint.engine.signature import Role, Signature, SignatureHit
from entrypoint.exit_status import ExitStatus
from entrypoint.verdict.evidence import ChildDeath, LogEvidence, MemoryEvidence, MemoryPoint, RankEnd

GIB = 1 << 30


def signature(name: str = "load.thing", role: Role = Role.ROOT, cause: Cause = Cause.CHECKPOINT) -> Signature:
    return Signature(
        name, re.compile(name), (name,), role, cause, f"{name} happened to {{what}}.", f"Mend {name}.", "test", "any"
    )


def hit(
    name: str = "load.thing",
    role: Role = Role.ROOT,
    cause: Cause = Cause.CHECKPOINT,
    *,
    at: float | None = 100.0,
    **more: Any,
) -> SignatureHit:
    row = signature(name, role, cause)
    given = {"line": f"a line about {name}", "number": 50, "unix_s": at, "fields": {"what": "it"}} | more
    return SignatureHit(row, **given)


def child_death(
    signal: int | None = None, code: int | None = None, *, at: float = 100.0, number: int = 60
) -> ChildDeath:
    return ChildDeath("scheduler_0", ExitStatus(code, signal), "Subprocess scheduler_0 crashed", number, at)


def memory(**more: Any) -> MemoryEvidence:
    given = {
        "total_bytes": 512 * GIB,
        "floor_bytes": 8 * GIB,
        "points": (MemoryPoint(100.0, 300 * GIB, 300 * GIB),),
        "node_oom_kills": 0,
        "cgroup_oom_kills": 0,
    }
    return MemoryEvidence(**given | more)


def log(*hits: SignatureHit, **more: Any) -> LogEvidence:
    given = {"name": "server-0.log", "hits": hits, "lines": 100, "ended_unix_s": 120.0, "tail": ("the last line",)}
    return LogEvidence(**given | more)


def end(*hits: SignatureHit, rank: int = 0, **more: Any) -> RankEnd:
    """Return the end of a rank that was loading and left with exit code 1, unless told otherwise."""
    about_log = {
        name: more.pop(name)
        for name in ("child_deaths", "stop_line", "telling", "available_gib", "phases", "tail")
        if name in more
    }
    given = {"phase": "loading", "status": ExitStatus(1, None), "lived_s": 12.34} | more
    return RankEnd(rank, log=log(*hits, **about_log), **given)


def killed(*hits: SignatureHit, **more: Any) -> RankEnd:
    """Return the end of a rank whose main process got SIGKILL."""
    return end(*hits, status=ExitStatus(None, 9), **more)
