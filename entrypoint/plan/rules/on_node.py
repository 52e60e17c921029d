"""What the rules about a node look at."""

from dataclasses import dataclass
from pathlib import Path

from entrypoint.node.inspection import NodeInspection
from entrypoint.node.lustre import Striping
from entrypoint.plan.caches import CacheDirectory
from entrypoint.site.site import Site

GIB = 1 << 30


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
        rank_bytes: What weights and pool of one rank take; None where that is not known.
        caches: The cache directories, by their real paths.
        shared: The shared tree, by its real path.
        in_memory_bytes: How much the caches that lie in memory hold.
        hub: The model's directory, by its real path; None where it is not here.
        unread_days: Days since its largest file was last read; None where that is not known.
        striping: How its largest file is spread; None where that is not known.
        site: The cluster; None where it is not known.
        network_required: A server on several nodes must not fall back to TCP.
        partition: Slurm's partition of the job; None outside of one.
        account: The account that jobs of this environment run on; None where it names none.
    """

    node: NodeInspection
    on_cpu: bool
    devices: int
    nodes: int
    in_step: bool
    seconds_left: float | None
    load_s: float
    weights_bytes: int | None
    rank_bytes: int | None
    caches: tuple[CacheDirectory, ...]
    shared: Path
    in_memory_bytes: int
    hub: Path | None
    unread_days: float | None
    striping: Striping | None
    site: Site | None
    network_required: bool
    partition: str | None = None
    account: str | None = None


def gib(size_bytes: float) -> str:
    """Return a size as people read it."""
    return f"{size_bytes / GIB:.1f} GiB"
