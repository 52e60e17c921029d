"""The picture of memory: what ``/status``, ``/metrics`` and ``memory-<rank>.jsonl`` show of it, as JSON data."""

from typing import Any

from entrypoint.node.meminfo import NodeMemory
from entrypoint.run.memory_history import MemoryState


def picture(state: MemoryState) -> dict[str, Any]:
    """Return how things stand as JSON data; what is unknown is None."""
    sample = state.sample
    tightest, pressure = sample.tightest, sample.pressure
    return {
        **outline(state),
        "floor_bytes": state.floor_bytes if sample.node else None,
        "limit_bytes": tightest.limit_bytes if tightest else None,
        "limit_of": tightest.path if tightest else None,
        "node": _parts(sample.node) if sample.node else None,
        "numa": [
            {"node": each.node, "total_bytes": each.total_bytes, "free_bytes": each.free_bytes} for each in sample.numa
        ],
        "apus": [
            {
                "card": apu.card,
                "gtt_total_bytes": apu.gtt_total_bytes,
                "gtt_used_bytes": apu.gtt_used_bytes,
                "vram_total_bytes": apu.vram_total_bytes,
                "vram_used_bytes": apu.vram_used_bytes,
            }
            for apu in sample.apus
        ],
        "cgroups": [{"path": group.path, "current_bytes": group.current_bytes} for group in sample.groups],
        "processes": [
            {"pid": process.pid, "name": process.name, "bytes": process.private_bytes} for process in sample.processes
        ],
        "pressure": {"some": pressure.some, "full": pressure.full} if pressure else None,
    }


def outline(state: MemoryState) -> dict[str, Any]:
    """Return the part of the picture that a curve is drawn of."""
    sample = state.sample
    return {
        "at_unix_s": round(sample.unix_s, 3),
        "available_bytes": sample.node.available_bytes if sample.node else None,
        "headroom_bytes": sample.headroom_bytes,
        "engine_bytes": sample.engine_bytes,
        "seconds_to_floor": None if state.seconds_to_floor is None else round(state.seconds_to_floor, 1),
        "oom_kills": {"node": state.node_oom_kills, "cgroup": state.cgroup_oom_kills},
    }


def _parts(node: NodeMemory) -> dict[str, int]:
    return {
        "total_bytes": node.total_bytes,
        "free_bytes": node.free_bytes,
        "cached_bytes": node.cached_bytes,
        "shmem_bytes": node.shmem_bytes,
        "anonymous_bytes": node.anonymous_bytes,
        "unreclaimable_bytes": node.unreclaimable_bytes,
        "swap_free_bytes": node.swap_free_bytes,
    }
