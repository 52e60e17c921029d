"""An inspection: what a node is, read once as plain data before an engine is started on it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from entrypoint.node.accelerators import Accelerator, accelerators
from entrypoint.node.apu_memory import ApuMemory, apu_memory
from entrypoint.node.fabric import Fabric, fabric
from entrypoint.node.filesystems import FileSystem, file_systems
from entrypoint.node.limits import Limits, limits
from entrypoint.node.memory import MemorySample, find_subjects, take_sample
from entrypoint.node.processors import Processors, processors


@dataclass(frozen=True, slots=True)
class NodeInspection:
    """What a node is.

    Attributes:
        processors: How many this process may use.
        accelerators: Its GPUs.
        apu_memory: What the driver has given to each of them.
        memory: Its memory, and the control groups that this process is in.
        limits: What this process may use.
        mounts: Its file systems.
        fabric: Its fabric.
    """

    processors: Processors
    accelerators: tuple[Accelerator, ...]
    apu_memory: tuple[ApuMemory, ...]
    memory: MemorySample
    limits: Limits
    mounts: tuple[FileSystem, ...]
    fabric: Fabric


def inspect(environ: Mapping[str, str], root: Path = Path("/")) -> NodeInspection:
    """Return what this node is.

    Only files of the kernel are read, and no network file system is touched.

    Args:
        environ: The engine's environment, with its library path.
        root: Where /proc, /sys and /dev are.
    """
    return NodeInspection(
        processors(root),
        accelerators(root),
        apu_memory(root),
        take_sample(find_subjects(None, root), time.time(), time.monotonic(), root),
        limits(root),
        file_systems(root),
        fabric(environ, root),
    )
