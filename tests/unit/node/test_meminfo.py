"""Meminfo: of the node and of its NUMA nodes, whatever state the files are in."""

from pathlib import Path

import memory_trees as trees
import pytest
from memory_trees import GIB

from entrypoint.node.meminfo import NumaMemory, node_memory, numa_memory


def test_the_memory_of_an_mi300a_node_is_read_in_bytes(tmp_path: Path):
    trees.mi300a(tmp_path)
    node = node_memory(tmp_path)
    assert node is not None
    assert node.total_bytes == 513.5 * GIB
    assert node.available_bytes == 120 * GIB
    assert node.free_bytes == 60 * GIB
    assert (node.cached_bytes, node.shmem_bytes, node.anonymous_bytes) == (90 * GIB, 10 * GIB, 40 * GIB)
    assert (node.unreclaimable_bytes, node.swap_free_bytes) == (3 * GIB, 0)


def test_a_part_that_the_kernel_does_not_tell_is_zero(tmp_path: Path):
    trees.meminfo(tmp_path)
    node = node_memory(tmp_path)
    assert node is not None
    assert node.shmem_bytes == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MemTotal:  100 kB\n",
        "MemTotal:  many kB\nMemAvailable: 5 kB\n",
        "MemTotal:\nMemAvailable:\n",
        "MemTotal: -5 kB\nMemAvailable: 5 kB\n",
        f"MemTotal: {'9' * 5000} kB\nMemAvailable: 5 kB\n",
        "\0\xff" * 3000,
    ],
)
def test_what_makes_no_sense_is_absent(tmp_path: Path, text: str):
    trees.write(tmp_path / "proc/meminfo", text)
    assert node_memory(tmp_path) is None


def test_two_good_lines_among_garbage_are_enough(tmp_path: Path):
    trees.write(tmp_path / "proc/meminfo", "Nonsense\nMemTotal: 100 kB\n:::\nMemAvailable: 40 kB")
    node = node_memory(tmp_path)
    assert node is not None
    assert (node.total_bytes, node.available_bytes) == (102400, 40960)


def test_a_file_that_is_missing_or_no_file_is_absent(tmp_path: Path):
    assert node_memory(tmp_path) is None
    (tmp_path / "proc/meminfo").mkdir(parents=True)
    assert node_memory(tmp_path) is None


def test_a_huge_file_is_read_to_a_bound_only(tmp_path: Path):
    trees.write(tmp_path / "proc/meminfo", "x" * (3 << 20) + "\nMemTotal: 100 kB\nMemAvailable: 40 kB\n")
    assert node_memory(tmp_path) is None


def test_each_apus_numa_node_is_told(tmp_path: Path):
    trees.mi300a(tmp_path)
    found = numa_memory(tmp_path)
    assert [each.node for each in found] == [0, 1, 2, 3]
    assert found[2] == NumaMemory(2, int(513.5 * GIB / 4), 12 * GIB, 22 * GIB)


def test_numa_nodes_are_in_the_order_of_their_numbers(tmp_path: Path):
    for node in (10, 9, 0):
        trees.numa(tmp_path, node, total_kib=5, free_kib=4, file_kib=3)
    assert [each.node for each in numa_memory(tmp_path)] == [0, 9, 10]


def test_a_numa_node_without_figures_is_left_out_and_the_others_are_not(tmp_path: Path):
    trees.numa(tmp_path, 0, total_kib=5, free_kib=4, file_kib=3)
    trees.write(tmp_path / "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: x kB\n")
    trees.write(tmp_path / "sys/devices/system/node/has_memory", "0-1\n")
    assert [each.node for each in numa_memory(tmp_path)] == [0]
    assert numa_memory(tmp_path / "nowhere") == ()


def test_this_machine_can_be_read():
    node = node_memory()
    assert node is not None
    assert 0 < node.available_bytes <= node.total_bytes
    assert node.anonymous_bytes > 0
