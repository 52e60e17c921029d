"""Metrics: Prometheus' names and units, read off the board."""

from pathlib import Path

import memory_trees as trees
from memory_trees import GIB
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from entrypoint.node.memory import find_subjects, take_sample
from entrypoint.run.memory_history import MemoryHistory
from entrypoint.run.memory_picture import picture
from entrypoint.tell.board import Board
from entrypoint.tell.metrics import registry_of


def values(board: Board) -> dict[str, float]:
    """Return every sample as Prometheus would read it, with its labels in the name."""
    text = generate_latest(registry_of(board)).decode()
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_run_that_has_just_begun_has_few_metrics():
    assert values(Board()) == {
        "supervise_ready": 0,
        "supervise_state[planned]": 1,
        "supervise_engine_restarts_total": 0,
        "supervise_log_lines_dropped_total": 0,
    }


def test_every_number_of_the_board_has_its_metric():
    board = Board(
        restarts=2,
        engine={"pool_tokens": 4096, "available_memory_gb": 1.5, "attention_backend": "triton"},
        load={"running": 3, "waiting": 4, "token_usage": 0.25, "nonsense": 1},
        self_check={"passed": True},
        log=lambda: {"dropped_lines": 5},
    )
    board.enter("loading", ready=False, reasons=(), now=10.0)
    board.enter("ready", ready=True, reasons=(), now=12.5)
    assert values(board) == {
        "supervise_ready": 1,
        "supervise_state[ready]": 1,
        "supervise_phase_seconds[loading]": 2.5,
        "supervise_engine_restarts_total": 2,
        "supervise_log_lines_dropped_total": 5,
        "supervise_self_check_passed": 1,
        "supervise_engine_pool_tokens": 4096,
        "supervise_engine_available_memory_bytes": 1.5 * 2**30,
        "supervise_engine_running_requests": 3,
        "supervise_engine_waiting_requests": 4,
        "supervise_engine_token_usage_ratio": 0.25,
    }


def test_a_failed_check_is_zero():
    assert values(Board(self_check={"passed": False}))["supervise_self_check_passed"] == 0


def test_a_phase_that_came_twice_is_told_by_its_last_time():
    board = Board()
    for name, now in (("loading", 0.0), ("ready", 5.0), ("loading", 6.0), ("ready", 9.0)):
        board.enter(name, ready=False, reasons=(), now=now)
    assert values(board)["supervise_phase_seconds[loading]"] == 3.0


def test_metrics_follow_the_board_between_scrapes():
    board = Board()
    registry = registry_of(board)
    assert b"supervise_ready 0.0" in generate_latest(registry)
    board.enter("ready", ready=True, reasons=(), now=1.0)
    assert b"supervise_ready 1.0" in generate_latest(registry)


def memory_of(root: Path) -> dict[str, float]:
    """Return the metrics of memory that a node's files lead to."""
    history = MemoryHistory(floor_gib=8, warn_s=180, every_s=1)
    state = history.note(take_sample(find_subjects(100, root), 0.0, 0.0, root))
    return {name: value for name, value in values(Board(memory=picture(state))).items() if name not in values(Board())}


def test_memory_of_an_mi300a_node_has_metrics_in_bytes_and_ratios(tmp_path: Path):
    trees.mi300a(tmp_path)
    assert memory_of(tmp_path) == {
        "supervise_memory_available_bytes": 120 * GIB,
        "supervise_memory_headroom_bytes": 120 * GIB,
        "supervise_memory_floor_bytes": 8 * GIB,
        "supervise_engine_memory_bytes": 23 * GIB,
        "supervise_apu_memory_used_bytes[card1]": 70 * GIB,
        "supervise_apu_memory_used_bytes[card2]": 71 * GIB,
        "supervise_apu_memory_used_bytes[card3]": 72 * GIB,
        "supervise_apu_memory_used_bytes[card4]": 73 * GIB,
        "supervise_numa_memory_free_bytes[0]": 10 * GIB,
        "supervise_numa_memory_free_bytes[1]": 11 * GIB,
        "supervise_numa_memory_free_bytes[2]": 12 * GIB,
        "supervise_numa_memory_free_bytes[3]": 13 * GIB,
        "supervise_memory_pressure_ratio[some]": 0.015,
        "supervise_memory_pressure_ratio[full]": 0.0025,
        "supervise_oom_kills_total[node]": 0,
        "supervise_oom_kills_total[cgroup]": 0,
    }


def test_memory_that_is_unknown_has_no_metric(tmp_path: Path):
    assert memory_of(tmp_path) == {"supervise_engine_memory_bytes": 0}
