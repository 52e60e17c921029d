"""Rules about the node: what a plan needs, against what the node at hand is."""

from collections.abc import Iterator

from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode
from entrypoint.plan.rules import site, storage
from entrypoint.plan.rules.on_node import GIB, OnNode, gib
from entrypoint.plan.rules.rule import Hit, Rule
from entrypoint.readable import duration

FEW_PROCESSORS, TOO_FEW_PROCESSORS = 2, 8
"""Parts of the node's processors that are few, and too few to serve at all."""
TAKEN_BYTES = 2 * GIB
"""More than a driver holds by itself on an idle APU."""
SHARED_MEMORY_BYTES = 8 * GIB
"""AMD's recipes for SGLang give a container 16 GiB; half of that is taken for a mistake."""
OPEN_FILES = 4096
_NOTES = "the operators' notes for MI300A, August 2026"


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
        named = ", ".join(f"{card} {gib(used)}" for card, used in taken.items())
        yield Hit(f"GPU memory is taken already: {named}.")


def _short_memory(seen: OnNode) -> Iterator[Hit]:
    left, wanted = seen.node.memory.headroom_bytes, seen.weights_bytes
    if left is not None and wanted is not None and wanted > left:
        yield Hit(f"The weights take {gib(wanted)} on this node, and {gib(left)} of memory are left.")


def _beyond_device(seen: OnNode) -> Iterator[Hit]:
    limits = [card.gtt_total_bytes for card in seen.node.apu_memory if card.vram_total_bytes == 0]
    if seen.rank_bytes is None or not limits or seen.on_cpu or seen.rank_bytes <= min(limits):
        return
    yield Hit(
        f"Weights and pool of one rank take {gib(seen.rank_bytes)}, and the driver gives one APU at most "
        f"{gib(min(limits))}."
    )


def _tight_group(seen: OnNode) -> Iterator[Hit]:
    node, tightest = seen.node.memory.node, seen.node.memory.tightest
    if node is None or tightest is None or tightest.limit_bytes is None or seen.on_cpu:
        return
    if tightest.limit_bytes < node.total_bytes / 2:
        yield Hit(
            f"The control group {tightest.path} is limited to {gib(tightest.limit_bytes)} of the node's "
            f"{gib(node.total_bytes)}."
        )


def _small_shared_memory(seen: OnNode) -> Iterator[Hit]:
    size = seen.node.limits.shared_memory_bytes
    if size is not None and size < SHARED_MEMORY_BYTES and not seen.on_cpu:
        yield Hit(f"Shared memory holds {gib(size)}: ranks of one node talk through it.")


def _few_open_files(seen: OnNode) -> Iterator[Hit]:
    if seen.node.limits.open_files < OPEN_FILES:
        yield Hit(f"Only {seen.node.limits.open_files} files may be open at once.")


def _end_of_job(seen: OnNode) -> Iterator[Hit]:
    left_s = seen.seconds_left
    if left_s is not None and left_s < seen.load_s:
        yield Hit(f"The job ends in {duration(max(0.0, left_s))}, and the load alone may take {duration(seen.load_s)}.")


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
        "device-limit",
        Severity.WARNING,
        "what one rank takes against what the driver gives one APU",
        "SGLang counts the node's memory and never asks what HIP may allocate on a device: stock drivers give 96 of "
        "the 128 GiB next to each APU.",
        "ROCm/legacy-rocm-build#3587; SGLang 0.5.23",
        "Lower the fraction, or raise the driver's limit (amdttm.pages_limit).",
        _beyond_device,
        "engine.mem_fraction_static",
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


EVERY_RULE: tuple[Rule[OnNode], ...] = (*RULES, *storage.RULES, *site.RULES)
"""All rules about a node, its storage and its site."""


def judge_node(seen: OnNode) -> tuple[Finding, ...]:
    """Return what all rules find on a node, in their order."""
    return tuple(finding for rule in EVERY_RULE for finding in rule.findings(seen))
