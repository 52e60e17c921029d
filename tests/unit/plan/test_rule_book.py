"""The book of rules: every row fires in its case, and stays quiet in the near miss beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from entrypoint.engine.flags import FlagTable
from entrypoint.findings import Finding, Severity
from entrypoint.node.facts import NodeFacts
from entrypoint.node.slurm import SlurmStep
from entrypoint.plan.budget.facts import MemoryFacts
from entrypoint.plan.budget.recorded import recorded
from entrypoint.plan.plan import Plan
from entrypoint.plan.rules.book import RULES
from entrypoint.plan.rules.rule import Rule

Planned = Callable[..., Plan]
STEP = SlurmStep(7, "0", 0, "nid1", node_rank=0, process_id=0, nodes_in_step=1, job_end_unix_s=None)


def step_of(nodes: int) -> SlurmStep:
    return replace(STEP, nodes_in_step=nodes, hosts=tuple(f"nid{rank + 1}" for rank in range(nodes)))


def memory_of(model: str) -> MemoryFacts:
    """Return what is known of a model's memory."""
    known = recorded(model)
    return MemoryFacts(known.shape, known.source) if known else MemoryFacts()


@dataclass(frozen=True)
class Case:
    """A plan of an APU.

    Attributes:
        toml: What is set beside the model.
        extra: Words after the separator.
        environ: The caller's environment.
        nodes: Nodes of the Slurm step; None is no step at all.
        model: Hub id or path.
        version: The engine's version.
        device: The engine's device; empty for its own choice.
        asked: The engine has told its flags.
        spans: Nodes that one server spans; None for all of the step.
        known: Hub id of a model whose shape is known; empty where nothing is.
    """

    toml: str = ""
    extra: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    nodes: int | None = None
    model: str = "/models/llama"
    version: str = "0.5.23"
    device: str = ""
    asked: bool = True
    spans: int | None = None
    known: str = ""


FRACTION = "engine.mem_fraction_static = 0.3\n"
LONG, SHORT = "model.context_length = 8193\n", "model.context_length = 8192\n"
HONOR = "engine.env.SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION = '1'\n"
TWO_CONFIGS = "engine.args.config = 'my.yaml'\n"
HUB_KIMI, HUB_GLM, HUB_QWEN = "moonshotai/Kimi-K2.7-Code", "zai-org/GLM-5.3", "Qwen/Qwen3.8-27B-FP8"
GLM = "profile = 'glm53'\n"
GLM_ON_FOUR: Mapping[str, Any] = {"model": "", "nodes": 4, "known": HUB_GLM}
LOAD = "workload.conversations = {}\nworkload.largest_prompt_tokens = 60000\n"
KIMI, QWEN = "profile = 'kimi27'\n", "profile = 'qwen38'\n"

BOTH_WAYS: Mapping[str, Sequence[tuple[Case, Case]]] = {
    "model-unset": [(Case(model=""), Case())],
    "name-unspeakable": [(Case(model="/m\udcff"), Case("model.served_name = 'm'", model="/m\udcff"))],
    "secret-in-argv": [(Case(extra=["--api-key", "k3y"]), Case("engine.api_key = 'k3y'"))],
    "config-file-taken": [(Case(TWO_CONFIGS + "engine.api_key = 'k3y'"), Case(TWO_CONFIGS))],
    "port-unreadable": [(Case(extra=["--port", "http"]), Case(extra=["--port", "30001"]))],
    "ports-clash": [(Case("health.port = 30000"), Case("health.port = 30001"))],
    "access-open": [
        (
            Case("engine.host = '0.0.0.0'\nengine.access = 'open'"),
            Case("engine.host = '0.0.0.0'\nengine.access = 'open'\nengine.api_key = 'k3y'"),
        )
    ],
    "parsers-both": [
        (Case("engine.tool_call_parser = ''"), Case("engine.tool_call_parser = ''\nprove.tools = false")),
        (Case("engine.reasoning_parser = ''"), Case("engine.reasoning_parser = 'auto'")),
    ],
    "parser-family": [
        (
            Case("engine.tool_call_parser = 'hermes'", model="Qwen/Qwen3.8-27B-FP8"),
            Case("engine.tool_call_parser = 'hermes'", model="Qwen/Qwen3-32B"),
        ),
        (
            Case("engine.tool_call_parser = 'glm45'", model="zai-org/GLM-5.3"),
            Case("engine.tool_call_parser = 'glm45'", model="zai-org/GLM-4.6"),
        ),
        (
            Case("engine.reasoning_parser = 'qwen3'", model="/hub/models--moonshotai--Kimi-K2.7-Code/snapshots/1"),
            Case("engine.reasoning_parser = 'qwen3'", model="/kimi-k2-team/Qwen3-32B"),
        ),
    ],
    "hierarchical-cache": [
        (Case("engine.args.enable-hierarchical-cache = true"), Case("engine.args.enable-hisparse = true")),
        (Case(extra=["--enable-hicache"]), Case(extra=["--enable-hicache"], device="cpu")),
        (Case(extra=["--hicache-ratio=2.0"]), Case("engine.args.enable-hierarchical-cache = false")),
        (Case(extra=["--enable-hier"], asked=False), Case(extra=["--enable-metrics"], asked=False)),
    ],
    "fraction-unset": [(Case(), Case(FRACTION)), (Case(), Case(device="cpu"))],
    "fraction-discrete": [
        (Case(SHORT + "engine.mem_fraction_static = 0.75"), Case(SHORT + "engine.mem_fraction_static = 0.74")),
        (Case(LONG + "engine.mem_fraction_static = 0.89"), Case(LONG + "engine.mem_fraction_static = 0.88")),
    ],
    "fraction-derated": [
        (Case(FRACTION + LONG), Case(FRACTION + SHORT)),
        (Case(FRACTION), Case(FRACTION + HONOR)),
        (Case(FRACTION + "engine.attention_backend = 'aiter'"), Case(FRACTION + "engine.attention_backend = 'triton'")),
        (Case(FRACTION, model="zai-org/GLM-4.6"), Case(FRACTION, model="zai-org/GLM-5.3")),
    ],
    "fraction-and-backend": [
        (
            Case(QWEN + "engine.mem_fraction_static = 0.26", model=""),
            Case(QWEN + "engine.mem_fraction_static = 0.26\nengine.attention_backend = 'triton'", model=""),
        ),
        (Case(QWEN + "engine.attention_backend = 'triton'", model=""), Case(QWEN, model="")),
    ],
    "budget-unknown": [(Case(), Case(known=HUB_KIMI)), (Case(), Case(device="cpu"))],
    "fraction-below-floor": [
        (Case(KIMI, model="", nodes=2, known=HUB_KIMI), Case(KIMI, model="", nodes=4, known=HUB_KIMI)),
        (
            Case(QWEN + "engine.mem_fraction_static = 0.14", model="", known=HUB_QWEN),
            Case(QWEN + "engine.mem_fraction_static = 0.15", model="", known=HUB_QWEN),
        ),
    ],
    "fraction-above-ceiling": [
        (
            Case(GLM + "engine.mem_fraction_static = 0.62\nengine.args.max-total-tokens = ''", **GLM_ON_FOUR),
            Case(GLM, **GLM_ON_FOUR),
        ),
        (
            Case(GLM + "engine.mem_fraction_static = 0.62\nengine.args.max-total-tokens = ''", **GLM_ON_FOUR),
            Case(GLM + "engine.mem_fraction_static = 0.62", **GLM_ON_FOUR),  # its pool is capped
        ),
    ],
    "pool-short": [
        (
            Case(QWEN + LOAD.format(60), model="", known=HUB_QWEN),
            Case(QWEN + LOAD.format(20), model="", known=HUB_QWEN),
        ),
        (Case(QWEN + LOAD.format(40), model="", known=HUB_QWEN), Case(QWEN, model="", known=HUB_QWEN)),
    ],
    "fraction-needless": [
        (
            Case(QWEN + LOAD.format(20) + "engine.mem_fraction_static = 0.35", model="", known=HUB_QWEN),
            Case(QWEN + LOAD.format(60) + "engine.mem_fraction_static = 0.35", model="", known=HUB_QWEN),
        ),
        (
            Case(QWEN + LOAD.format(20) + "engine.mem_fraction_static = 0.35", model="", known=HUB_QWEN),
            Case(QWEN + LOAD.format(20), model="", known=HUB_QWEN),
        ),
    ],
    "aiter-off": [
        (Case("engine.env.SGLANG_USE_AITER = '0'"), Case("engine.env.SGLANG_USE_AITER = '1'")),
        (Case(environ={"SGLANG_USE_AITER": "0"}), Case(environ={"SGLANG_USE_AITER": "0"}, device="cpu")),
    ],
    "backend-named": [
        (
            Case("engine.attention_backend = 'aiter'", model="zai-org/GLM-5.3"),
            Case("engine.attention_backend = 'aiter'", model="zai-org/GLM-4.6"),
        ),
        (
            Case("engine.args.prefill-attention-backend = 'triton'", model="zai-org/GLM-5.3"),
            Case("engine.attention_backend = ''", model="zai-org/GLM-5.3"),
        ),
    ],
    "watchdog-short": [(Case("engine.watchdog_timeout_s = 300"), Case("engine.watchdog_timeout_s = 363"))],
    "cpu-affinity": [
        (
            Case("engine.env.SGLANG_SET_CPU_AFFINITY = '1'", nodes=1),
            Case("engine.env.SGLANG_SET_CPU_AFFINITY = '1'"),
        ),
        (
            Case("engine.env.SGLANG_SET_CPU_AFFINITY = '1'", nodes=1),
            Case(environ={"SGLANG_SET_CPU_AFFINITY": "1"}, nodes=1),  # an image's preset, which is replaced
        ),
    ],
    "several-nodes": [(Case(nodes=2), Case(nodes=1))],
    "pipeline-needless": [
        (Case(QWEN + "topology.pipeline_parallel = 2", model=""), Case(QWEN, model="")),
        (Case(QWEN + "topology.pipeline_parallel = 2", model=""), Case(KIMI, model="")),
    ],
    "nodes-few": [(Case(KIMI, model="", nodes=2), Case(KIMI, model="", nodes=4)), (Case(KIMI, nodes=1), Case(KIMI))],
    "nodes-uneven": [
        (Case(nodes=3, spans=2), Case(nodes=4, spans=2)),
        (Case(nodes=5, spans=4), Case(nodes=3, spans=1)),
    ],
    "server-shared": [
        (
            Case(QWEN + "workload.clients = 4", model="", nodes=4),
            Case(QWEN + "workload.clients = 4", model="", nodes=1),
        ),
        (
            Case(QWEN + "workload.clients = 4", model="", nodes=4),
            Case(KIMI + "workload.clients = 4", model="", nodes=4),
        ),
        (
            Case(QWEN + "workload.clients = 4", model="", nodes=4),
            Case(QWEN + "workload.clients = 1", model="", nodes=4),
        ),
    ],
    "gpu-direct": [
        (Case("network.gdr_level = 3", nodes=2), Case("network.gdr_level = 0", nodes=2)),
        (Case("network.gdr_level = ''", nodes=2), Case("network.gdr_level = 3", nodes=1)),
    ],
    "gpu-direct-misspelt": [(Case(environ={"NCCL_GDR_LEVEL": "0"}), Case(environ={"NCCL_NET_GDR_LEVEL": "0"}))],
    "pynccl-off": [
        (Case(extra=["--disable-pynccl"], nodes=2), Case(extra=["--disable-pynccl"], nodes=1)),
        (Case(environ={"SGLANG_DISABLE_PYNCCL": "1"}, nodes=2), Case(environ={"SGLANG_DISABLE_PYNCCL": "0"}, nodes=2)),
    ],
    "nccl-cold": [(Case(nodes=2), Case("engine.args.pre-warm-nccl = true", nodes=2)), (Case(nodes=2), Case(nodes=1))],
    "plugin-forced": [
        (Case("engine.env.NCCL_NET = 'AWS Libfabric'"), Case("engine.env.NCCL_NET = 'AWS Libfabric'", nodes=2)),
        (Case("engine.env.NCCL_NET_PLUGIN = 'ofi'", nodes=1), Case(environ={"NCCL_NET_PLUGIN": "ofi"}, nodes=1)),
    ],
    "nccl-lines-hidden": [
        (Case(environ={"NCCL_DEBUG_FILE": "/logs/nccl.%p"}, nodes=2), Case(environ={"NCCL_DEBUG_FILE": "/l"}, nodes=1))
    ],
    "cache-unset": [
        (Case("engine.env.TRITON_CACHE_DIR = ''"), Case("engine.env.TRITON_CACHE_DIR = '/local/triton'")),
        (Case("engine.env.HF_HOME = ''"), Case("engine.env.HF_TOKEN_PATH = ''")),
    ],
    "memory-limited": [
        (Case(nodes=1, environ={"SLURM_MEM_PER_NODE": "256000"}), Case(nodes=1, environ={"SLURM_MEM_PER_NODE": "0"})),
        (Case(nodes=1, environ={"SLURM_MEM_PER_CPU": "2000"}), Case(environ={"SLURM_MEM_PER_CPU": "2000"})),
    ],
    "tasks-several": [
        (
            Case(nodes=2, environ={"SLURM_STEP_TASKS_PER_NODE": "4(x2)"}),
            Case(nodes=2, environ={"SLURM_STEP_TASKS_PER_NODE": "1(x2)"}),
        ),
        (
            Case(nodes=2, environ={"SLURM_STEP_TASKS_PER_NODE": "1,2"}),
            Case(environ={"SLURM_STEP_TASKS_PER_NODE": "4"}),
        ),
    ],
    "gpus-few": [
        (
            Case(QWEN, model="", nodes=1, environ={"SLURM_GPUS_ON_NODE": "1"}),
            Case(QWEN, model="", nodes=1, environ={"SLURM_GPUS_ON_NODE": "4"}),
        ),
    ],
    "survivors": [
        (Case(nodes=2, environ={"SLURM_KILL_BAD_EXIT": "0"}), Case(nodes=2, environ={"SLURM_KILL_BAD_EXIT": "1"})),
        (Case(nodes=2, environ={"SLURM_KILL_BAD_EXIT": "0"}), Case(nodes=1, environ={"SLURM_KILL_BAD_EXIT": "0"})),
    ],
    "account-differs": [
        (
            Case(environ={"SBATCH_ACCOUNT": "a1", "SLURM_JOB_ACCOUNT": "a2"}),
            Case(environ={"SBATCH_ACCOUNT": "a1", "SLURM_JOB_ACCOUNT": "a1"}),
        ),
        (
            Case(environ={"SBATCH_ACCOUNT": "a1", "SLURM_JOB_ACCOUNT": "a2"}),
            Case(environ={"SLURM_JOB_ACCOUNT": "a2"}),
        ),
    ],
    "flags-unchecked": [(Case(asked=False), Case(asked=True))],
    "flag-…": [
        (Case(extra=["--max-context-length", "8192"]), Case(extra=["--context-length", "8192"])),
        (Case(extra=["--pp", "2"]), Case(extra=["--pp-size", "2"])),
        (Case("engine.args.dtype = 'fp7'"), Case("engine.args.dtype = 'half'")),
    ],
    "numbers-aged": [
        (Case("profile = 'tiny'", version="0.5.24"), Case("profile = 'tiny'", version="0.5.23")),
        (Case(QWEN, model=""), Case()),
    ],
}
PAIRS = [(name, *pair) for name, pairs in BOTH_WAYS.items() for pair in pairs]


@pytest.fixture
def find(planned: Planned, node: NodeFacts, table: FlagTable) -> Callable[[Case, str], tuple[Finding, ...]]:
    """Return what one rule finds in a case."""

    def findings(case: Case, name: str) -> tuple[Finding, ...]:
        step = None if case.nodes is None else step_of(case.nodes)
        plan = planned(
            case.toml,
            case.extra,
            environ=case.environ,
            flags=table if case.asked else None,
            on=replace(node, step=step),
            model=case.model,
            version=case.version,
            device=case.device,
            memory=memory_of(case.known),
            spans=case.spans,
        )
        return tuple(finding for finding in plan.findings if _is_of(finding, name))

    return findings


def _is_of(finding: Finding, name: str) -> bool:
    return finding.rule.startswith("flag-") if name == "flag-…" else finding.rule == name


@pytest.mark.parametrize(("name", "broken", "kept"), PAIRS)
def test_a_rule_fires_in_its_case_and_not_in_the_near_miss(
    find: Callable[[Case, str], tuple[Finding, ...]], name: str, broken: Case, kept: Case
):
    (finding, *_) = find(broken, name)
    assert finding.message.endswith(".")
    assert finding.remedy.endswith(".")
    assert find(kept, name) == ()


def test_every_rule_is_tested_both_ways():
    assert set(BOTH_WAYS) == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_says_why_with_its_source_and_what_to_do(rule: Rule):
    assert rule.why.endswith(".")
    assert rule.remedy.endswith(".")
    assert rule.source
    assert rule.looks_at


def test_no_two_rules_have_one_name():
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)


def test_a_profile_as_it_is_has_no_error_on_its_own_number_of_nodes_but_that_nodes_are_several(
    planned: Planned, node: NodeFacts, table: FlagTable
):
    for name, nodes in {"qwen38": 1, "apertus70b": 1, "kimi27": 4, "glm53": 4}.items():
        step = step_of(nodes)
        plan = planned(f"profile = '{name}'", flags=table, on=replace(node, step=step), model="", device="")
        refused = {finding.rule for finding in plan.findings if finding.severity is Severity.ERROR}
        assert refused <= {"several-nodes"}, (name, refused)
