"""Memory samples: one look at everything, and what can still be had."""

from pathlib import Path
from typing import Any

import memory_trees as trees
import pytest
from memory_trees import GIB, STEP

from entrypoint.node import memory
from entrypoint.node.memory import Subjects, find_subjects, take_sample


def test_a_sample_of_an_mi300a_node_holds_everything(tmp_path: Path):
    trees.mi300a(tmp_path)
    sample = take_sample(find_subjects(100, tmp_path), 50.0, 5.0, tmp_path)
    assert (sample.unix_s, sample.monotonic_s) == (50.0, 5.0)
    assert len(sample.apus) == len(sample.numa) == 4
    names = {process.name for process in sample.processes}
    assert names == {"python3", "sglang::detokenizer", "sglang::scheduler_TP0"}
    assert sample.engine_bytes == 23 * GIB
    assert sample.oom_kills == 3
    assert sample.pressure is not None
    assert [group.oom_kills for group in sample.groups if group.is_own] == [1]


def test_headroom_is_the_nodes_where_no_group_is_tighter(tmp_path: Path):
    trees.mi300a(tmp_path)
    sample = take_sample(find_subjects(100, tmp_path), 0, 0, tmp_path)
    assert sample.headroom_bytes == 120 * GIB
    assert sample.tightest is not None
    assert sample.tightest.path.endswith("/step_0")
    assert sample.limit_bytes == 500 * GIB


def test_headroom_is_the_tightest_groups_of_all_ancestors(tmp_path: Path):
    trees.mi300a(tmp_path)
    trees.v2_group(tmp_path, STEP.partition("/step_0")[0], current=495 * GIB, limit=501 * GIB, files=4 * GIB)
    sample = take_sample(find_subjects(100, tmp_path), 0, 0, tmp_path)
    assert sample.headroom_bytes == 10 * GIB


def test_weights_in_the_page_cache_take_no_headroom(tmp_path: Path):
    trees.meminfo(tmp_path, available_kib=400 << 20)
    trees.in_group(tmp_path, "self", "0::/a")
    trees.v2_group(tmp_path, "/a", current=480 * GIB, limit=500 * GIB, files=450 * GIB)
    assert take_sample(find_subjects(None, tmp_path), 0, 0, tmp_path).headroom_bytes == 400 * GIB
    trees.v2_group(tmp_path, "/a", current=480 * GIB, limit=500 * GIB, files=30 * GIB)
    assert take_sample(find_subjects(None, tmp_path), 0, 0, tmp_path).headroom_bytes == 50 * GIB


def test_where_nothing_can_be_read_a_sample_is_empty(tmp_path: Path):
    sample = take_sample(find_subjects(1, tmp_path), 0, 0, tmp_path)
    assert (sample.node, sample.headroom_bytes, sample.limit_bytes, sample.tightest) == (None, None, None, None)
    assert (sample.numa, sample.apus, sample.groups, sample.processes) == ((), (), (), ())
    assert (sample.pressure, sample.oom_kills, sample.engine_bytes) == (None, None, 0)


def test_before_an_engine_the_groups_are_this_processs_own(tmp_path: Path):
    trees.mi300a(tmp_path)
    subjects = find_subjects(None, tmp_path)
    assert subjects.processes == {}
    assert subjects.groups[0].path == STEP


def test_the_groups_of_the_engine_are_its_own_and_stay_when_it_has_ended(tmp_path: Path):
    trees.mi300a(tmp_path)
    inner = f"{STEP}/engine"
    trees.v2_group(tmp_path, inner, current=5)
    trees.in_group(tmp_path, 102, f"0::{inner}")
    alive = find_subjects(100, tmp_path)
    assert {group.path for group in alive.groups if group.is_own} == {STEP, inner}
    gone = find_subjects(999, tmp_path, alive)
    assert gone == Subjects({}, alive.groups)
    assert find_subjects(None, tmp_path, alive).groups != alive.groups


def test_a_kill_during_a_look_is_never_seen_on_the_node_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trees.mi300a(tmp_path)
    trees.vmstat(tmp_path, 0)
    real = memory.group_memory

    def killed_meanwhile(group: Any) -> Any:
        trees.vmstat(tmp_path, 1)
        return real(group)

    monkeypatch.setattr(memory, "group_memory", killed_meanwhile)
    kills = [take_sample(find_subjects(None, tmp_path), at, at, tmp_path).oom_kills for at in (1.0, 2.0)]
    assert kills == [0, 1]


def test_this_machine_can_be_sampled():
    sample = take_sample(find_subjects(1), 0, 0)
    assert sample.node is not None
    assert sample.headroom_bytes is not None
    assert sample.headroom_bytes <= sample.node.available_bytes
