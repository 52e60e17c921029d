"""Processes: everything below one, and what each holds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import memory_trees as trees
import pytest
from memory_trees import GIB, MIB

from entrypoint.node.processes import ProcessMemory, descendants, process_memory, process_name

PARENT = "import subprocess, sys; c = subprocess.Popen(['cat']); print(c.pid, flush=True); c.wait()"


def test_children_of_every_thread_are_found(tmp_path: Path):
    trees.mi300a(tmp_path)
    assert sorted(descendants(100, tmp_path)) == [101, 102, 103]
    assert sorted(descendants(101, tmp_path)) == [102, 103]
    assert descendants(103, tmp_path) == ()


def test_a_kernel_that_lists_no_children_is_asked_for_parents(tmp_path: Path):
    trees.mi300a(tmp_path)
    for pid in (100, 101, 102, 103):
        shutil.rmtree(tmp_path / f"proc/{pid}/task")
    trees.write(tmp_path / "proc/104/stat", "104 (a) b) S x")
    assert sorted(descendants(100, tmp_path)) == [101, 102, 103]


def test_a_process_that_has_ended_has_none_below(tmp_path: Path):
    trees.mi300a(tmp_path)
    assert descendants(999, tmp_path) == ()
    assert descendants(999, tmp_path / "nowhere") == ()


def test_a_tree_that_changes_under_the_look_does_not_lead_in_a_circle(tmp_path: Path):
    for pid in (5, 6):
        trees.process(tmp_path, pid)
    trees.thread(tmp_path, 5, 5, 6)
    trees.thread(tmp_path, 6, 6, 5, 6)
    assert descendants(5, tmp_path) == (6,)


def test_a_child_that_vanishes_under_the_look_is_listed_still_and_garbage_is_not(tmp_path: Path):
    trees.process(tmp_path, 5)
    trees.write(tmp_path / "proc/5/task/5/children", "6 x -1 ")
    assert descendants(5, tmp_path) == (6,)
    assert process_memory(6, "", tmp_path) is None


def test_private_memory_is_what_is_no_files_and_not_shared(tmp_path: Path):
    trees.mi300a(tmp_path)
    assert process_memory(102, "x", tmp_path) == ProcessMemory(102, "x", 22 * GIB, 20 * GIB)


@pytest.mark.parametrize("statm", ["", "1", "1 2", "a b c d", "100 0 0 0 0 0 0"])
def test_a_process_that_holds_nothing_is_left_out(tmp_path: Path, statm: str):
    assert process_memory(7, "x", tmp_path) is None
    trees.write(tmp_path / "proc/7/statm", statm)
    assert process_memory(7, "x", tmp_path) is None


@pytest.mark.parametrize(
    ("name", "title", "shown"),
    [
        ("python3", "/opt/venv/bin/python3\0-m\0sglang.launch_server\0", "python3"),
        ("sglang::schedul", "sglang::scheduler_TP0\0\0\0", "sglang::scheduler_TP0"),
        ("sglang::schedul", "", "sglang::schedul"),
        ("averylongname_x", "/usr/bin/averylongname_xyz --api-key s3cret\0", "averylongname_xyz"),
        ("pt_main_thread_", "/opt/venv/bin/python\0--api-key\0s3cret\0", "pt_main_thread_"),
    ],
)
def test_a_name_that_the_kernel_cut_is_completed(tmp_path: Path, name: str, title: str, shown: str):
    trees.process(tmp_path, 7, name=name, title=title)
    assert process_name(7, tmp_path) == shown


def test_a_name_is_completed_once_only_unless_it_changes(tmp_path: Path):
    trees.process(tmp_path, 7, name="sglang::schedul", title="sglang::scheduler_TP1\0")
    assert process_name(7, tmp_path, {7: "sglang::scheduler_TP0"}) == "sglang::scheduler_TP0"
    assert process_name(7, tmp_path, {7: "python3"}) == "sglang::scheduler_TP1"
    assert process_name(8, tmp_path, {8: "python3"}) == ""


def test_a_real_tree_is_found_by_either_way():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        below = descendants(os.getpid())
        memory = process_memory(parent.pid, "python")
        parent.communicate(timeout=20)
    assert {parent.pid, child} <= set(below)
    assert memory is not None
    assert MIB < memory.private_bytes < memory.resident_bytes
