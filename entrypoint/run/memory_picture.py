"""The picture of memory: what ``/status``, ``/metrics`` and ``memory-<rank>.jsonl`` show of it, as JSON data."""

from dataclasses import asdict
from typing import Any

from entrypoint.run.memory_history import MemoryState


def picture(state: MemoryState) -> dict[str, Any]:
    """Return how things stand as JSON data; what is unknown is None."""
    sample = state.sample
    node, tightest, pressure = sample.node, sample.tightest, sample.pressure
    return {
        "at_unix_s": sample.unix_s,
        "total_bytes": node.total_bytes if node else None,
        "available_bytes": node.available_bytes if node else None,
        "headroom_bytes": sample.headroom_bytes,
        "floor_bytes": state.floor_bytes if node else None,
        "seconds_to_floor": state.seconds_to_floor,
        "limit_bytes": tightest.limit_bytes if tightest else None,
        "limit_of": tightest.path if tightest else None,
        "engine_bytes": sample.engine_bytes,
        "processes": [
            {"pid": process.pid, "name": process.name, "bytes": process.private_bytes} for process in sample.processes
        ],
        "apus": [asdict(apu) for apu in sample.apus],
        "numa": [asdict(each) for each in sample.numa],
        "cgroups": [{"path": group.path, "current_bytes": group.current_bytes} for group in sample.groups],
        "node": asdict(node) if node else None,
        "pressure": asdict(pressure) if pressure else None,
        "oom_kills": {"node": state.node_oom_kills, "cgroup": state.cgroup_oom_kills},
    }
