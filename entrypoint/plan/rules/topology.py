"""Rules about topology: how many nodes a model needs, and what a server that spans them costs."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

_NOTES = "the operators' notes for MI300A, August 2026"


def _several_nodes(plan: RuleInput) -> Iterator[Hit]:
    if plan.step_nodes > 1:
        yield Hit(f"The step spans {plan.step_nodes} nodes, and this version starts servers of one node.")


def _needless_pipeline(plan: RuleInput) -> Iterator[Hit]:
    stages = plan.number("pp_size") or 1
    if stages > 1 and plan.fewest_nodes == 1:
        yield Hit(f"The model fits on one node, and --pp-size {stages:g} would cut it into stages.")


def _too_few_nodes(plan: RuleInput) -> Iterator[Hit]:
    fewest = plan.fewest_nodes
    if fewest is not None and plan.step is not None and plan.step_nodes < fewest:
        given = "1 node" if plan.step_nodes == 1 else f"{plan.step_nodes} nodes"
        yield Hit(f"The model needs {fewest} nodes, and the step has {given}.", f"Ask Slurm for {fewest} nodes.")


def _uneven(plan: RuleInput) -> Iterator[Hit]:
    left = plan.step_nodes % plan.nodes
    if left:
        yield Hit(f"Servers of {plan.nodes} nodes each would leave {left} of the step's {plan.step_nodes} nodes over.")


def _shared_by_several(plan: RuleInput) -> Iterator[Hit]:
    clients = plan.settings.workload.clients or 1
    if clients > 1 and plan.nodes > 1 and plan.fewest_nodes == 1:
        yield Hit(f"{clients} users would share one server of {plan.nodes} nodes, and the model fits on one.")


RULES = (
    Rule(
        "several-nodes",
        Severity.ERROR,
        "the number of nodes of the step",
        "A server that spans nodes needs its ranks started, watched and ended as one.",
        "supervise itself",
        "Start one step per node: srun --nodes=1 --ntasks=1.",
        _several_nodes,
    ),
    Rule(
        "pipeline-needless",
        Severity.WARNING,
        "pipeline stages of a model that fits on one node",
        "Stages wait for each other: four of them cost about 42 % of the engine's time, and each token crosses the "
        "network.",
        _NOTES,
        "Leave topology.pipeline_parallel out; several nodes then serve as independent replicas.",
        _needless_pipeline,
        "topology.pipeline_parallel",
    ),
    Rule(
        "nodes-few",
        Severity.ERROR,
        "the nodes of the step against what the model needs",
        "Each stage of a pipeline holds its share of the weights: on too few nodes the weights alone exceed what there "
        "is, or leave no room for the KV pool.",
        _NOTES,
        "Ask Slurm for more nodes; a larger memory fraction is no remedy.",
        _too_few_nodes,
    ),
    Rule(
        "nodes-uneven",
        Severity.ERROR,
        "the step's nodes against the nodes that one server spans",
        "Nodes are dealt out to servers in their order: what is left over would be a server without all of its ranks.",
        "supervise itself",
        "Ask Slurm for a multiple of the nodes of one server.",
        _uneven,
        "topology.nodes_per_replica",
    ),
    Rule(
        "server-shared",
        Severity.WARNING,
        "several users on one server of several nodes",
        "They compete for one KV pool and evict each other's prefixes: four users on four one-node servers got more "
        "done than on one of four nodes.",
        _NOTES,
        "Start one server per node, and give each user one of them.",
        _shared_by_several,
        "workload.clients",
    ),
)
