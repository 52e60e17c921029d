"""The ground: this node's tree of caches made ready, with what dead builders have left cleared away."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from entrypoint.findings import Finding, Severity
from entrypoint.node.directories import unwritable
from entrypoint.node.filesystems import file_system_of, file_systems
from entrypoint.plan.caches import CacheDirectory
from entrypoint.plan.plan import Plan
from entrypoint.verdict.wording import first_upper
from entrypoint.warm import tree_use
from entrypoint.warm.directories import prepare, shared_finding
from entrypoint.warm.lock_finding import Lock, find
from entrypoint.warm.lock_owner import Owner, Vantage
from entrypoint.warm.locks import LockReport, Tenancy, clear
from entrypoint.warm.tree_use import Foreign, TreeUse


@dataclass(frozen=True, slots=True)
class Ground:
    """What is made ready.

    Attributes:
        plan: The plan; where somebody holds a lock, with that cache elsewhere.
        findings: What is wrong: an error is one that nothing can be built upon.
        notes: What was cleared away, in sentences.
        use: Keeps the tree in use until it is closed; None where it cannot be used.
        diverted: The caches that lie elsewhere now, as they were.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    use: TreeUse | None = None
    diverted: tuple[CacheDirectory, ...] = ()


def lay(plan: Plan) -> Ground:
    """Make this node's tree ready; may hang with a network file system: call it in a thread."""
    local = plan.trees.local
    user = tree_use.this_run(plan.node.environ, plan.run_directory, Vantage.here(), os.getpid())
    try:
        use = tree_use.enter(plan.trees.root_of(local), local, user)
    except OSError as error:
        return Ground(plan, (unwritable(local, "caches", "caches.local", error),))
    if isinstance(use, Foreign):
        return Ground(plan, (use.finding(),))
    begun = shared_finding(plan.trees)
    wrong = (*prepare(plan.caches), *(() if begun is None else (begun,)))
    if wrong:
        use.close()
        return Ground(plan, wrong)
    return Ground(plan, (), _notes(_clear(plan, use)), use)


def leave_locked(ground: Ground) -> Ground:
    """Leave the caches in which somebody else holds a lock, and say who.

    Asked when it is our turn to build, or nobody's: a lock that another run holds while it builds for us as well is
    waited for by waiting for that run.
    """
    if ground.use is None or ground.diverted:
        return ground
    report = _clear(ground.plan, ground.use)
    concerned = {
        cache.variable: cache for held in report.held if (cache := _cache_of(held.lock, ground.plan.caches)) is not None
    }
    places = {name: _beside(cache.path) for name, cache in concerned.items()}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    findings = (*ground.findings, *(_locked(judged.sentence) for judged in report.held))
    notes = (*ground.notes, *_notes(report))
    return Ground(ground.plan.with_caches_at(places), findings, notes, ground.use, tuple(concerned.values()))


def _clear(plan: Plan, use: TreeUse) -> LockReport:
    with use.alone() as alone:
        lies_on = file_system_of(Path(os.path.realpath(plan.trees.local)), file_systems())
        tenancy = Tenancy(alone=alone, local=lies_on is not None and not lies_on.on_network)
        locks = find(plan.caches)
        return clear(locks, tenancy, Vantage.here(), time.time(), others=use.others(), job_ended=_has_reported)


def _notes(report: LockReport) -> tuple[str, ...]:
    return tuple(f"{first_upper(judged.sentence)}." for judged in report.removed)


def _has_reported(owner: Owner) -> bool:
    """Return whether a run has written its last word: then it has ended."""
    directory = Path(owner.run_directory)
    return bool(owner.run_directory) and any(directory.glob("report-*.json"))


def _cache_of(lock: Lock, caches: tuple[CacheDirectory, ...]) -> CacheDirectory | None:
    """Return the cache that a lock lies in: the innermost of those around it."""
    around = [cache for cache in caches if lock.path.is_relative_to(cache.path)]
    return max(around, key=lambda cache: len(cache.path.parts), default=None)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}")


def _locked(sentence: str) -> Finding:
    return Finding(
        "cache-locked",
        Severity.WARNING,
        f"{first_upper(sentence)}: this run builds elsewhere.",
        "See whether that process is still at work; when it is gone, the next start removes the lock.",
        "caches.local",
    )


def seeded_places(ground: Ground) -> Mapping[Path, CacheDirectory]:
    """Return for each cache that lies elsewhere its new directory, with the cache as it was."""
    now = {cache.variable: cache.path for cache in ground.plan.caches}
    return {now[cache.variable]: cache for cache in ground.diverted}
