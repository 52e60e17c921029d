"""Remedies for want of memory, from what is known of who had it."""

from entrypoint.verdict.evidence import MemoryEvidence, MemoryOwner, RankEnd
from entrypoint.verdict.wording import size

LOADING = {"starting", "loading"}
OWNERS_NAMED = 3


def memory_remedy(end: RankEnd) -> str:
    """Return what to change after a rank ran out of memory.

    Raising the fraction is never the answer on an APU, where the engine and the host share one pool.
    """
    memory = end.memory
    parts = []
    if memory is not None and _limited(memory):
        parts.append("Give the job all of the node's memory: --mem=0 on the job and on the step.")
    if end.phase in LOADING:
        parts.append("The weights did not fit beside what else was there: take more nodes or smaller weights.")
    else:
        parts.append("Lower engine.mem_fraction_static or engine.max_running_requests, or take more nodes.")
    owners = ", ".join(f"{owner.name} {size(owner.bytes)}" for owner in _owners(memory)[:OWNERS_NAMED])
    if owners:
        parts.append(f"Most was held by {owners}.")
    return " ".join(parts)


def _owners(memory: MemoryEvidence | None) -> tuple[MemoryOwner, ...]:
    """Return who held what ran out: where a cgroup was the limit, the rest of the node is beside the point."""
    if memory is None:
        return ()
    if not _limited(memory):
        return memory.owners
    return tuple(owner for owner in memory.owners if owner.pid is not None)


def _limited(memory: MemoryEvidence) -> bool:
    """Return whether a cgroup, and not the node, was the limit."""
    return memory.limit_bytes is not None and memory.limit_bytes < memory.total_bytes
