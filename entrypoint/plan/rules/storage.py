"""Rules about storage: where caches and models lie, and what becomes of them there."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.node.filesystems import file_system_of
from entrypoint.plan.caches import CacheLayer
from entrypoint.plan.rules.on_node import OnNode, gib
from entrypoint.plan.rules.rule import Hit, Rule

CACHE_SHARE = 0.02
"""Share of a node's memory that caches in it may take before it is said."""
NARROW_TARGETS = 4
"""Storage targets below which a hub directory is read at the bandwidth of a few disks."""
SOON_DAYS = 3
"""Days before a purge at which it is about to happen: a queue may be that long."""
NAMED = 3
_NOTES = "the operators' notes for MI300A, August 2026"


def _caches_on_network(seen: OnNode) -> Iterator[Hit]:
    wrong: dict[str, list[str]] = {}
    for cache in seen.caches:
        lies_on = file_system_of(cache.path, seen.node.mounts)
        if cache.layer is CacheLayer.LOCAL and lies_on is not None and lies_on.on_network:
            wrong.setdefault(lies_on.kind, []).append(cache.variable)
    for kind, variables in wrong.items():
        more = f" and {len(variables) - NAMED} more" if len(variables) > NAMED else ""
        yield Hit(f"{', '.join(variables[:NAMED])}{more} lie on {kind}, which breaks them.")


def _caches_in_memory(seen: OnNode) -> Iterator[Hit]:
    node = seen.node.memory.node
    if node is not None and seen.in_memory_bytes > CACHE_SHARE * node.total_bytes:
        yield Hit(f"Caches hold {gib(seen.in_memory_bytes)} in memory, which is the memory of the APUs as well.")


def _transient_tree(seen: OnNode) -> Iterator[Hit]:
    lies_on = None if seen.on_cpu else file_system_of(seen.shared, seen.node.mounts)  # a laptop's may go with it
    if lies_on is not None and (lies_on.in_memory or lies_on.of_the_container):
        yield Hit(f"The shared caches lie at {seen.shared}, on {lies_on.kind}: what is built ends with the job.")


def _purged_hub(seen: OnNode) -> Iterator[Hit]:
    place = seen.site.filesystem_of(str(seen.hub)) if seen.site and seen.hub else None
    if place is None or place.purge_days is None:
        return
    if seen.unread_days is not None and seen.unread_days > place.purge_days - SOON_DAYS:
        yield Hit(
            f"The model lies on {place.path}, and was last read {seen.unread_days:.0f} days ago: what nobody read for "
            f"{place.purge_days} days is removed.",
            "Read it now, or copy it elsewhere.",
            severity=Severity.WARNING,
        )
    else:
        yield Hit(f"The model lies on {place.path}, where what nobody read for {place.purge_days} days is removed.")


def _slow_hub(seen: OnNode) -> Iterator[Hit]:
    if seen.hub is None or seen.site is None:
        return
    here = seen.site.filesystem_of(str(seen.hub))
    better = [place for place in seen.site.filesystems if place.for_weights]
    if here is not None and better and not here.for_weights:
        yield Hit(
            f"The model lies on {here.path} ({here.what}).",
            f"Keep it on {better[0].path} ({better[0].what}), and point caches.hf_home there.",
        )


def _narrow_hub(seen: OnNode) -> Iterator[Hit]:
    if seen.striping is not None and seen.striping.targets < NARROW_TARGETS:
        yield Hit(f"The model's largest file lies on {seen.striping.targets} storage target(s) of Lustre.")


RULES: tuple[Rule[OnNode], ...] = (
    Rule(
        "cache-on-network",
        Severity.WARNING,
        "the file systems of node-local caches",
        "Triton's and Inductor's caches and SQLite files break on network file systems: stale handles and lost locks "
        "end ranks.",
        "triton-lang/triton#11512; pytorch/pytorch#173679; radixark/miles#3158",
        "Set caches.local to a directory of this node, such as below /tmp.",
        _caches_on_network,
        "caches.local",
    ),
    Rule(
        "cache-in-memory",
        Severity.WARNING,
        "the caches that lie on tmpfs",
        "In a container /tmp is memory, and on an APU memory is what weights and KV cache lie in.",
        "enroot's mounts",
        "Clear them, or set caches.local to a disk.",
        _caches_in_memory,
        "caches.local",
    ),
    Rule(
        "cache-transient",
        Severity.WARNING,
        "the file system of the shared caches",
        "What engines build is kept there for other jobs; what a container keeps in memory is built anew by every job.",
        _NOTES,
        "Set caches.shared to a directory that outlives the job.",
        _transient_tree,
        "caches.shared",
    ),
    Rule(
        "hub-purged",
        Severity.NOTE,
        "the purge of the file system that the model lies on",
        "A model that was not read for long is gone at the next start.",
        "the site's file",
        "Keep a copy elsewhere; reading it counts.",
        _purged_hub,
        "caches.hf_home",
    ),
    Rule(
        "hub-slow",
        Severity.WARNING,
        "the file system that the model lies on",
        "Loading is many large reads at once: 9.45 GB/s against 0.83 with 16 readers were measured between two file "
        "systems of one site.",
        _NOTES,
        "Keep the model on the file system that the site names for weights.",
        _slow_hub,
        "caches.hf_home",
    ),
    Rule(
        "hub-unstriped",
        Severity.WARNING,
        "the striping of the model's largest file on Lustre",
        "A file on one storage target is read back at that one target's bandwidth; a layout set on the directory is "
        "not honoured by the hub's downloads.",
        _NOTES,
        "On the host: lfs migrate -c -1 FILE for each weight file, and lfs getstripe to see it.",
        _narrow_hub,
        "caches.hf_home",
    ),
)
