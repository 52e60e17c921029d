"""Metrics in Prometheus' names and units, read off the board when somebody asks."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from entrypoint.tell.board import Board
from entrypoint.tell.memory_metrics import memory_metrics

_ENGINE_GAUGES = (
    ("pool_tokens", "supervise_engine_pool_tokens", "Size of the engine's KV pool in tokens, as it printed it."),
)
GIB = 2**30
"""What the engine prints as GB is this (``get_available_gpu_memory`` divides by 1 << 30; 0.5.23)."""
_LOAD_GAUGES = (
    ("running", "supervise_engine_running_requests", "Requests that the engine works on."),
    ("waiting", "supervise_engine_waiting_requests", "Requests that wait in the engine's queue."),
    ("token_usage", "supervise_engine_token_usage_ratio", "Share of the KV pool in use."),
)


class BoardCollector(Collector):
    """Reads the board at each scrape, so that metrics cost nothing between scrapes."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        board = self._board
        yield _gauge("supervise_ready", "Whether clients should send requests.", float(board.ready))
        state = GaugeMetricFamily("supervise_state", "The run's state; 1 for the current one.", labels=["state"])
        state.add_metric([board.state], 1)
        yield state
        phases = GaugeMetricFamily(
            "supervise_phase_seconds", "How long each phase that has ended took, the last time.", labels=["phase"]
        )
        for name, lasted_s in {
            phase.name: phase.lasted_s for phase in board.phases if phase.lasted_s is not None
        }.items():
            phases.add_metric([name], lasted_s)
        yield phases
        yield _counter("supervise_engine_restarts", "Starts of the engine after the first.", board.restarts)
        yield _counter(
            "supervise_log_lines_dropped",
            "Engine log lines that did not reach the disk.",
            float(board.log().get("dropped_lines", 0)),
        )
        if board.self_check is not None:
            yield _gauge(
                "supervise_self_check_passed",
                "Whether the last self-check passed.",
                float(bool(board.self_check.get("passed"))),
            )
        yield from _present(_ENGINE_GAUGES, board.engine)
        if isinstance(available_gib := board.engine.get("available_memory_gb"), int | float):
            name = "supervise_engine_available_memory_bytes"
            yield _gauge(name, "Last memory figure the engine printed.", float(available_gib) * GIB)
        yield from _present(_LOAD_GAUGES, board.load or {})
        if board.memory is not None:
            yield from memory_metrics(board.memory)


def _present(rows: tuple[tuple[str, str, str], ...], values: Any) -> Iterator[Metric]:
    for key, name, text in rows:
        value = values.get(key)
        if isinstance(value, int | float):
            yield _gauge(name, text, float(value))


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def registry_of(board: Board) -> CollectorRegistry:
    """Return a registry that holds the board's metrics and nothing else."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BoardCollector(board))
    return registry
