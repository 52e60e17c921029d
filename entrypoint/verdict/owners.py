"""Owners: who holds the memory of a node."""

from entrypoint.node.memory import MemorySample
from entrypoint.verdict.evidence import MemoryOwner
from entrypoint.verdict.wording import size

OWNERS_KEPT = 12
WORTH_NAMING_BYTES = 1 << 20


def owners(sample: MemorySample) -> tuple[MemoryOwner, ...]:
    """Return who holds memory at a moment, largest first; each page belongs to one of them only."""
    found = [MemoryOwner(process.name, process.private_bytes, process.pid) for process in sample.processes]
    found += [MemoryOwner(f"GPU {apu.card}", apu.gtt_used_bytes) for apu in sample.apus]
    node = sample.node
    if node is not None:
        found += [
            MemoryOwner("other processes", node.anonymous_bytes - sample.engine_bytes),
            MemoryOwner("shared memory and tmpfs", node.shmem_bytes),
            MemoryOwner("page cache", node.cached_bytes - node.shmem_bytes),
            MemoryOwner("kernel", node.unreclaimable_bytes),
        ]
    worth = [owner for owner in found if owner.bytes >= WORTH_NAMING_BYTES]
    return tuple(sorted(worth, key=lambda owner: owner.bytes, reverse=True)[:OWNERS_KEPT])


def in_words(owner: MemoryOwner) -> str:
    """Return an owner as people read it."""
    name = owner.name or "a process"
    return f"{name} {size(owner.bytes)}" if owner.pid is None else f"{name} (process {owner.pid}) {size(owner.bytes)}"
