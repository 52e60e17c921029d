"""Rules about the fabric: they matter for a server that spans nodes, and its variables harm one that does not."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

GDR, MISSPELT_GDR = "NCCL_NET_GDR_LEVEL", "NCCL_GDR_LEVEL"
FORCED = ("NCCL_NET", "NCCL_NET_PLUGIN")
_NOTES = "the operators' notes for MI300A, August 2026"


def _gpu_direct(plan: RuleInput) -> Iterator[Hit]:
    level = plan.settings.network.gdr_level
    if plan.nodes > 1 and level != 0:  # what the environment holds instead is refused where it is decided
        yield Hit(f"{GDR} is {'not set' if level is None else level} for a server of {plan.nodes} nodes.")


def _misspelt(plan: RuleInput) -> Iterator[Hit]:
    if plan.variable(MISSPELT_GDR) is not None:
        yield Hit(f"{MISSPELT_GDR} is set, which nothing reads: the variable is {GDR}.")


def _without_pynccl(plan: RuleInput) -> Iterator[Hit]:
    words = [word for word in plan.argv if word.partition("=")[0] == "--disable-pynccl"]
    variables = [name for name in ("SGLANG_DISABLE_PYNCCL", "VLLM_DISABLE_PYNCCL") if plan.variable(name) == "1"]
    if plan.nodes > 1 and (words or variables):
        yield Hit(f"{(*words, *variables)[0]} turns PyNCCL off for a server of {plan.nodes} nodes.")


def _cold(plan: RuleInput) -> Iterator[Hit]:
    if plan.nodes > 1 and not plan.value("pre_warm_nccl"):
        yield Hit("--pre-warm-nccl is not set: the first user's request waits until the nodes have found each other.")


def _forced_on_one_node(plan: RuleInput) -> Iterator[Hit]:
    for name in FORCED:
        if plan.nodes == 1 and plan.variable(name):
            message = f"{name}={plan.variable(name)} forces a network plugin on a server of one node."
            yield Hit(message, setting=f"engine.env.{name}")


def _hidden_lines(plan: RuleInput) -> Iterator[Hit]:
    where = plan.variable("NCCL_DEBUG_FILE")
    if plan.nodes > 1 and where:
        yield Hit(f"NCCL_DEBUG_FILE sends NCCL's lines to {where}: the engine's log will not tell the network.")


RULES = (
    Rule(
        "gpu-direct",
        Severity.ERROR,
        f"{GDR} of a server that spans nodes",
        "RCCL turns GPU-direct RDMA on by itself. On this fabric that corrupts collectives without a word: wrong sums.",
        f"{_NOTES}; NVIDIA/nccl#2001 reports the like for another machine on the same fabric",
        "Leave network.gdr_level at 0.",
        _gpu_direct,
        "network.gdr_level",
    ),
    Rule(
        "gpu-direct-misspelt",
        Severity.WARNING,
        f"the variable {MISSPELT_GDR}",
        "A misspelt variable protects nobody.",
        _NOTES,
        f"Remove it; supervise sets {GDR} itself.",
        _misspelt,
    ),
    Rule(
        "pynccl-off",
        Severity.ERROR,
        "whatever turns PyNCCL off for a server that spans nodes",
        "Collectives then take a path that no graph can capture: decoding fell from 17 tokens a second to 1.4.",
        f"{_NOTES}; SGLang 0.5.23 has no such flag, other versions and engines have",
        "Remove it, and look for the cause of the collective's trouble instead.",
        _without_pynccl,
    ),
    Rule(
        "nccl-cold",
        Severity.WARNING,
        "--pre-warm-nccl of a server that spans nodes",
        "The collective library sets itself up at its first use, within somebody's request. The flag is off by "
        "default, whatever its help says.",
        "SGLang 0.5.23",
        "Set engine.args.pre-warm-nccl = true.",
        _cold,
        "engine.args.pre-warm-nccl",
    ),
    Rule(
        "plugin-forced",
        Severity.ERROR,
        "NCCL_NET and NCCL_NET_PLUGIN of a server of one node",
        "A forced plugin finds no fabric to use within one node, and the server dies at its start: invalid usage.",
        "runs on MI300A, August 2026; the fabric vendor's own script says the same",
        "Remove it from engine.env: one node needs no fabric.",
        _forced_on_one_node,
    ),
    Rule(
        "nccl-lines-hidden",
        Severity.NOTE,
        "NCCL_DEBUG_FILE of a server that spans nodes",
        "Which network is in use is told by NCCL's lines alone, and a fallback to TCP is silent otherwise.",
        "RCCL's own code",
        "Unset NCCL_DEBUG_FILE, or look into that file.",
        _hidden_lines,
    ),
)
