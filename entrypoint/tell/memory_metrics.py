"""Metrics of memory, from the picture that the board holds; what is unknown has no metric."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

_GAUGES = (
    ("available_bytes", "supervise_memory_available_bytes", "What the node could still give (MemAvailable)."),
    ("headroom_bytes", "supervise_memory_headroom_bytes", "What the engine could still get, all limits considered."),
    ("floor_bytes", "supervise_memory_floor_bytes", "Headroom at which the end is near."),
    ("engine_bytes", "supervise_engine_memory_bytes", "Private memory of the engine's processes, GPUs not counted."),
)


def memory_metrics(memory: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield the metrics of a picture of memory."""
    for key, name, text in _GAUGES:
        if memory[key] is not None:
            yield GaugeMetricFamily(name, text, value=memory[key])
    apus = GaugeMetricFamily("supervise_apu_memory_used_bytes", "Memory given to each GPU.", labels=["card"])
    for apu in memory["apus"]:
        apus.add_metric([apu["card"]], apu["gtt_used_bytes"] + apu["vram_used_bytes"])
    yield apus
    numa = GaugeMetricFamily("supervise_numa_memory_free_bytes", "Unused memory of each NUMA node.", labels=["node"])
    for each in memory["numa"]:
        numa.add_metric([str(each["node"])], each["free_bytes"])
    yield numa
    pressure = GaugeMetricFamily(
        "supervise_memory_pressure_ratio",
        "Share of the last 10 s in which some or all processes waited for memory.",
        labels=["who"],
    )
    for who, share in (memory["pressure"] or {}).items():
        pressure.add_metric([who], share)
    yield pressure
    kills = CounterMetricFamily(
        "supervise_oom_kills", "Out-of-memory kills since the run began, by whose counter.", labels=["of"]
    )
    for of, count in memory["oom_kills"].items():
        if count is not None:
            kills.add_metric([of], count)
    yield kills
