"""Rules about the node: what a plan needs, against what the node at hand is."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from entrypoint.findings import Finding, Severity
from entrypoint.node.filesystems import file_system_of
from entrypoint.node.inspection import NodeInspection
from entrypoint.node.lustre import Striping
from entrypoint.outcome import ExitCode
from entrypoint.plan.caches import CacheDirectory, CacheLayer
from entrypoint.plan.rules.rule import Hit, Rule
from entrypoint.readable import duration
from entrypoint.site.site import Site

GIB = 1 << 30
FEW_PROCESSORS, TOO_FEW_PROCESSORS = 2, 8
"""Parts of the node's processors that are few, and too few to serve at all."""
TAKEN_BYTES = 2 * GIB
"""More than a driver holds by itself on an idle APU."""
SHARED_MEMORY_BYTES = 8 * GIB
"""AMD's recipes for SGLang give a container 16 GiB; half of that is taken for a mistake."""
OPEN_FILES = 4096
CACHE_SHARE = 0.02
"""Share of a node's memory that caches in it may take before it is said."""
NARROW_TARGETS = 4
"""Storage targets below which a hub directory is read at the bandwidth of a few disks."""
_NOTES = "the operators' notes for MI300A, August 2026"


@dataclass(frozen=True, slots=True)
class OnNode:
    """What the rules about a node look at.

    Attributes:
        node: What the node is.
        on_cpu: The engine computes on the processor.
        devices: GPUs that the engine wants on this node.
        nodes: Nodes of the server.
        in_step: This is a task of a Slurm step; else it may be a login node.
        seconds_left: Until the job's time is over; None where nobody knows.
        load_s: How long a load may take.
        weights_bytes: What this node has to load; None where the checkpoint is not here.
        caches: The cache directories, by their real paths.
        in_memory_bytes: How much the caches that lie in memory hold.
        hub: The model's directory, by its real path; None where it is not here.
        striping: How its largest file is spread; None where that is not known.
        site: The cluster; None where it is not known.
        network_required: A server on several nodes must not fall back to TCP.
    """

    node: NodeInspection
    on_cpu: bool
    devices: int
    nodes: int
    in_step: bool
    seconds_left: float | None
    load_s: float
    weights_bytes: int | None
    caches: tuple[CacheDirectory, ...]
    in_memory_bytes: int
    hub: Path | None
    striping: Striping | None
    site: Site | None
    network_required: bool


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.1f} GiB"


def _few_processors(seen: OnNode) -> Iterator[Hit]:
    allowed, online = seen.node.processors.allowed, seen.node.processors.online
    if online is None or seen.on_cpu or allowed * FEW_PROCESSORS >= online:
        return
    severity = Severity.ERROR if allowed * TOO_FEW_PROCESSORS <= online else Severity.WARNING
    yield Hit(f"This task may use {allowed} of the node's {online} logical processors.", severity=severity)


def _few_gpus(seen: OnNode) -> Iterator[Hit]:
    present = len(seen.node.accelerators)
    if seen.on_cpu or present >= seen.devices:
        return
    if not present and not seen.in_step:
        yield Hit(
            "This node shows no GPU, and this is no Slurm step: a login node, it seems.",
            "Nothing, where the job will run elsewhere.",
            severity=Severity.NOTE,
        )
        return
    yield Hit(f"This node shows {present} GPU(s), and the engine wants {seen.devices}.")


def _taken_gpu_memory(seen: OnNode) -> Iterator[Hit]:
    taken = {card.card: card.used_bytes for card in seen.node.apu_memory if card.used_bytes > TAKEN_BYTES}
    if taken and not seen.on_cpu:
        named = ", ".join(f"{card} {_gib(used)}" for card, used in taken.items())
        yield Hit(f"GPU memory is taken already: {named}.")


def _short_memory(seen: OnNode) -> Iterator[Hit]:
    left, wanted = seen.node.memory.headroom_bytes, seen.weights_bytes
    if left is not None and wanted is not None and wanted > left:
        yield Hit(f"The weights take {_gib(wanted)} on this node, and {_gib(left)} of memory are left.")


def _tight_group(seen: OnNode) -> Iterator[Hit]:
    node, tightest = seen.node.memory.node, seen.node.memory.tightest
    if node is None or tightest is None or tightest.limit_bytes is None or seen.on_cpu:
        return
    if tightest.limit_bytes < node.total_bytes / 2:
        yield Hit(
            f"The control group {tightest.path} is limited to {_gib(tightest.limit_bytes)} of the node's "
            f"{_gib(node.total_bytes)}."
        )


def _small_shared_memory(seen: OnNode) -> Iterator[Hit]:
    size = seen.node.limits.shared_memory_bytes
    if size is not None and size < SHARED_MEMORY_BYTES and not seen.on_cpu:
        yield Hit(f"Shared memory holds {_gib(size)}: ranks of one node talk through it.")


def _few_open_files(seen: OnNode) -> Iterator[Hit]:
    if seen.node.limits.open_files < OPEN_FILES:
        yield Hit(f"Only {seen.node.limits.open_files} files may be open at once.")


def _end_of_job(seen: OnNode) -> Iterator[Hit]:
    left_s = seen.seconds_left
    if left_s is not None and left_s < seen.load_s:
        yield Hit(f"The job ends in {duration(max(0.0, left_s))}, and the load alone may take {duration(seen.load_s)}.")


def _caches_on_network(seen: OnNode) -> Iterator[Hit]:
    wrong: dict[str, list[str]] = {}
    for cache in seen.caches:
        lies_on = file_system_of(cache.path, seen.node.mounts)
        if cache.layer is CacheLayer.LOCAL and lies_on is not None and lies_on.on_network:
            wrong.setdefault(lies_on.kind, []).append(cache.variable)
    for kind, variables in wrong.items():
        more = f" and {len(variables) - 3} more" if len(variables) > 3 else ""  # noqa: PLR2004  # as many as one reads
        yield Hit(f"{', '.join(variables[:3])}{more} lie on {kind}, which breaks them.")


def _caches_in_memory(seen: OnNode) -> Iterator[Hit]:
    node = seen.node.memory.node
    if node is not None and seen.in_memory_bytes > CACHE_SHARE * node.total_bytes:
        yield Hit(f"Caches hold {_gib(seen.in_memory_bytes)} in memory, which is the memory of the APUs as well.")


def _transient_home(seen: OnNode) -> Iterator[Hit]:
    for cache in seen.caches:
        lies_on = file_system_of(cache.path, seen.node.mounts)
        if cache.variable == "HOME" and lies_on is not None and (lies_on.in_memory or lies_on.of_the_container):
            yield Hit(f"The engine's HOME is {cache.path}, on {lies_on.kind}: it ends with the job.")


def _purged_hub(seen: OnNode) -> Iterator[Hit]:
    place = seen.site.filesystem_of(str(seen.hub)) if seen.site and seen.hub else None
    if place is not None and place.purge_days is not None:
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


def _no_fabric(seen: OnNode) -> Iterator[Hit]:
    if seen.nodes > 1 and not seen.node.fabric.devices and not seen.on_cpu:
        yield Hit(
            "There is no /dev/cxi device here: collectives would fall back to TCP.",
            severity=Severity.ERROR if seen.network_required else Severity.WARNING,
        )


def _no_plugin(seen: OnNode) -> Iterator[Hit]:
    fabric = seen.node.fabric
    if seen.nodes > 1 and fabric.devices and fabric.plugin is None and not seen.on_cpu:
        yield Hit(
            "There are fabric devices, and no plugin for the collectives: they would fall back to TCP.",
            severity=Severity.ERROR if seen.network_required else Severity.WARNING,
        )


RULES: tuple[Rule[OnNode], ...] = (
    Rule(
        "cpus-few",
        Severity.WARNING,
        "the processors of this task against the node's",
        "A step that does not ask gets one core: the server then degrades with load rather than failing, from 2 s to "
        "147 s per decode step within half an hour.",
        _NOTES,
        'Give srun --cpus-per-task="$SLURM_CPUS_ON_NODE".',
        _few_processors,
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "gpus-missing",
        Severity.ERROR,
        "the GPUs that the node shows",
        "The engine fails after its imports, with a message about devices.",
        "SGLang 0.5.23",
        "Give srun --gpus-per-node=4, and mount /dev/kfd and /dev/dri into the container.",
        _few_gpus,
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "gpu-memory-taken",
        Severity.WARNING,
        "what the driver has given to the GPUs before the start",
        "What another job left, or still uses, is missing for weights and cache: on an APU it is the node's memory.",
        _NOTES,
        "See who uses the GPUs (rocm-smi --showpids); another node may be clean.",
        _taken_gpu_memory,
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "memory-short",
        Severity.ERROR,
        "the memory that is left against the weights",
        "The kernel ends the engine in the middle of the load, without a line in its log.",
        _NOTES,
        "Take more nodes, or find what else uses this one's memory.",
        _short_memory,
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "cgroup-tight",
        Severity.WARNING,
        "the memory limits of all control groups that this process is in",
        "SGLang sizes its pool by the node's memory and knows nothing of a group's limit.",
        "SGLang 0.5.23, utils/common.py",
        "Give --mem=0 on the job and on the srun line.",
        _tight_group,
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "shm-small",
        Severity.WARNING,
        "the size of /dev/shm",
        "The ranks of one node exchange data through it; too small, collectives fail with a system error.",
        "AMD's recipes for SGLang; sgl-project/sglang#4289",
        "Give the container a larger /dev/shm: --shm-size=16g, or the host's.",
        _small_shared_memory,
    ),
    Rule(
        "open-files-few",
        Severity.WARNING,
        "how many files may be open",
        "Each connection, shard and cache entry is one.",
        "getrlimit(2)",
        "Raise the hard limit: ulimit -n, or --ulimit nofile of the container.",
        _few_open_files,
    ),
    Rule(
        "job-ends-soon",
        Severity.WARNING,
        "the time left in the job against the time a load may take",
        "A server that becomes ready when its job ends has cost the node for nothing.",
        "Slurm's SLURM_JOB_END_TIME",
        "Ask for more time.",
        _end_of_job,
        "deadlines.load_s",
    ),
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
        "home-transient",
        Severity.WARNING,
        "the file system of the engine's HOME",
        "Some of aiter builds below HOME whatever its variables say; what a container keeps in memory is built anew by "
        "every job.",
        _NOTES,
        "Set caches.shared to a directory that outlives the job.",
        _transient_home,
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
    Rule(
        "fabric-missing",
        Severity.ERROR,
        "the fabric's devices, for a server that spans nodes",
        "Without them collectives run over TCP: right answers, several times slower, and no error.",
        _NOTES,
        "Turn the site's hooks on in the EDF: supervise edf check.",
        _no_fabric,
        "network.require",
        ExitCode.NODE_UNFIT,
    ),
    Rule(
        "fabric-plugin-missing",
        Severity.ERROR,
        "the collectives' network plugin, for a server that spans nodes",
        "RCCL falls back to TCP without an error when it finds no plugin.",
        _NOTES,
        "Turn the site's hooks on in the EDF: supervise edf check.",
        _no_plugin,
        "network.require",
        ExitCode.NODE_UNFIT,
    ),
)


def judge_node(seen: OnNode) -> tuple[Finding, ...]:
    """Return what all rules find on a node, in their order."""
    return tuple(finding for rule in RULES for finding in rule.findings(seen))
