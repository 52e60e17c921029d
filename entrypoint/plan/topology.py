"""Topology: which nodes of a step serve together, and how their ranks are told of each other.

A server spans as many nodes as its devices need, and never more: a model that fits on one node is served by independent
replicas, each with a KV pool of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from entrypoint.node.slurm import SlurmStep
from entrypoint.plan.arguments import Argument
from entrypoint.settings.schema import TopologySettings

GPUS_PER_NODE = 4
"""Of a node of MI300A, where Slurm does not say."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One server of a step.

    Attributes:
        index: Which of the step's servers it is.
        rank: Rank of this node in it.
        hosts: Its nodes, in Slurm's order; empty on a single node.
        nodes: How many nodes it spans.
    """

    index: int = 0
    rank: int = 0
    hosts: tuple[str, ...] = ()
    nodes: int = 1


def replica_of(settings: TopologySettings, step: SlurmStep | None, environ: Mapping[str, str]) -> Replica:
    """Return the server that this node belongs to: the step's nodes are dealt out in their order.

    Args:
        settings: The ``[topology]`` table.
        step: The Slurm step, where there is one.
        environ: The caller's environment.
    """
    if step is None or step.nodes_in_step == 1:
        return Replica()
    nodes = min(settings.nodes_per_replica or _nodes_needed(settings, environ), step.nodes_in_step)
    index, rank = divmod(step.node_rank, nodes)
    return Replica(index, rank, step.hosts[index * nodes : (index + 1) * nodes], nodes)


def _nodes_needed(settings: TopologySettings, environ: Mapping[str, str]) -> int:
    """Return how many nodes have as many devices as a server wants."""
    devices = (settings.tensor_parallel or 1) * (settings.pipeline_parallel or 1)
    given = environ.get("SLURM_GPUS_ON_NODE", "")
    on_node = int(given) if given.isdigit() and int(given) else GPUS_PER_NODE
    return -(-devices // on_node)


def gang_arguments(settings: TopologySettings, replica: Replica) -> tuple[Argument, ...]:
    """Return the engine's flags that make this node's engine one rank of several; none on a single node.

    Args:
        settings: The ``[topology]`` table.
        replica: The server that this node belongs to; all its ranks meet on its first node.
    """
    if replica.nodes == 1:
        return ()
    meeting_point = f"{replica.hosts[0]}:{settings.dist_port}"
    return (
        Argument("--nnodes", (str(replica.nodes),), "topology.nodes_per_replica"),
        Argument("--node-rank", (str(replica.rank),), "topology.nodes_per_replica"),
        Argument("--dist-init-addr", (meeting_point,), "topology.dist_port"),
    )
