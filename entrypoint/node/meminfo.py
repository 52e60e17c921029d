"""Meminfo: what the kernel says about the memory of the whole node and of each of its NUMA nodes."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrypoint.node.kernel_file import content, kib_field

_NUMA_NODE: Final = re.compile(r"node(\d{1,6})", re.ASCII)
_NODES: Final = "sys/devices/system/node"


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """Memory of the node (/proc/meminfo); 0 for a part that this kernel does not tell.

    On an MI300A this is also the memory of the GPUs: one pool of HBM for both.

    Attributes:
        total_bytes: All of it (MemTotal).
        available_bytes: What it could still give without swapping (MemAvailable). Page cache, such as weights leave
            when they are read, counts as available.
        free_bytes: What nobody uses, not even as a cache (MemFree).
        cached_bytes: Page cache, tmpfs and shared memory included (Cached).
        shmem_bytes: Shared memory and tmpfs, which is not given back for the asking (Shmem).
        anonymous_bytes: Pages of processes that are no file's (AnonPages).
        unreclaimable_bytes: The kernel's own objects that it cannot drop (SUnreclaim).
        swap_free_bytes: Swap that is left (SwapFree).
    """

    total_bytes: int
    available_bytes: int
    free_bytes: int = 0
    cached_bytes: int = 0
    shmem_bytes: int = 0
    anonymous_bytes: int = 0
    unreclaimable_bytes: int = 0
    swap_free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NumaMemory:
    """Memory of one NUMA node; on an MI300A that is the memory next to one APU.

    Attributes:
        node: Its number.
        total_bytes: All of it.
        free_bytes: What nobody uses, not even as a cache.
        file_bytes: Page cache in it, tmpfs and shared memory included.
    """

    node: int
    total_bytes: int
    free_bytes: int
    file_bytes: int


def node_memory(root: Path = Path("/")) -> NodeMemory | None:
    """Return the memory of the node; None where total or available cannot be read."""
    text = content(f"{root}/proc/meminfo")
    total_bytes = kib_field(text, b"MemTotal:")
    available_bytes = kib_field(text, b"MemAvailable:")
    if total_bytes is None or available_bytes is None:
        return None
    return NodeMemory(
        total_bytes,
        available_bytes,
        free_bytes=kib_field(text, b"MemFree:") or 0,
        cached_bytes=kib_field(text, b"Cached:") or 0,
        shmem_bytes=kib_field(text, b"Shmem:") or 0,
        anonymous_bytes=kib_field(text, b"AnonPages:") or 0,
        unreclaimable_bytes=kib_field(text, b"SUnreclaim:") or 0,
        swap_free_bytes=kib_field(text, b"SwapFree:") or 0,
    )


def numa_memory(root: Path = Path("/")) -> tuple[NumaMemory, ...]:
    """Return the memory of each NUMA node that tells about it, in the order of their numbers."""
    directory = f"{root}/{_NODES}"
    try:
        names = os.listdir(directory)  # noqa: PTH208  # once a second: Path objects cost more than the look itself
    except OSError:
        return ()
    numbers = sorted(int(match[1]) for match in map(_NUMA_NODE.fullmatch, names) if match)
    nodes = (_numa_node(number, content(f"{directory}/node{number}/meminfo")) for number in numbers)
    return tuple(node for node in nodes if node is not None)


def _numa_node(number: int, text: bytes | None) -> NumaMemory | None:
    prefix = b"Node %d " % number
    total_bytes = kib_field(text, prefix + b"MemTotal:")
    free_bytes = kib_field(text, prefix + b"MemFree:")
    if total_bytes is None or free_bytes is None:
        return None
    return NumaMemory(number, total_bytes, free_bytes, kib_field(text, prefix + b"FilePages:") or 0)
