"""Topology: how the ranks of a server that spans nodes are told of each other."""

from entrypoint.node.slurm import SlurmStep
from entrypoint.plan.arguments import Argument
from entrypoint.settings.schema import TopologySettings


def gang_arguments(settings: TopologySettings, step: SlurmStep | None) -> tuple[Argument, ...]:
    """Return the engine's flags that make this node's engine one rank of several; none on a single node.

    The ranks are the step's nodes in Slurm's order, and the first of them is where all meet.

    Args:
        settings: The ``[topology]`` table.
        step: The Slurm step, where there is one.
    """
    if step is None or step.nodes_in_step == 1:
        return ()
    meeting_point = f"{step.hosts[0]}:{settings.dist_port}"
    return (
        Argument("--nnodes", (str(step.nodes_in_step),), "topology"),
        Argument("--node-rank", (str(step.node_rank),), "topology"),
        Argument("--dist-init-addr", (meeting_point,), "topology.dist_port"),
    )
