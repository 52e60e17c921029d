"""Pressure: waits for memory, and kills for want of it."""

from pathlib import Path

import memory_trees as trees
import pytest

from entrypoint.node.pressure import Pressure, memory_pressure, node_oom_kills


def test_pressure_is_a_share_of_time(tmp_path: Path):
    trees.pressure(tmp_path, "12.50", "100.00")
    assert memory_pressure(tmp_path) == Pressure(some=0.125, full=1.0)


@pytest.mark.parametrize("text", ["", "some avg10=x avg60=0\n", "some avg10=1.00 avg60=0.00\n", "avg10=1.00\n"])
def test_pressure_that_is_not_told_is_absent(tmp_path: Path, text: str):
    assert memory_pressure(tmp_path) is None
    trees.write(tmp_path / "proc/pressure/memory", text)
    assert memory_pressure(tmp_path) is None


def test_the_nodes_kills_are_counted_and_not_another_field(tmp_path: Path):
    trees.vmstat(tmp_path, 41)
    assert node_oom_kills(tmp_path) == 41


@pytest.mark.parametrize("text", ["", "oom_killers 9\n", "pgoom_kill 9\n", "oom_kill\n", "oom_kill x\n"])
def test_kills_that_are_not_told_are_absent(tmp_path: Path, text: str):
    assert node_oom_kills(tmp_path) is None
    trees.write(tmp_path / "proc/vmstat", text)
    assert node_oom_kills(tmp_path) is None


def test_the_first_line_counts_as_well(tmp_path: Path):
    trees.write(tmp_path / "proc/vmstat", "oom_kill 2")
    assert node_oom_kills(tmp_path) == 2


def test_this_machine_counts_its_kills():
    assert node_oom_kills() is not None  # of a file that the kernel hands out in pieces
