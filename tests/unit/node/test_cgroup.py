"""Groups: found in both versions and through a container's eyes, with what they limit and count."""

import os
from collections.abc import Iterator
from pathlib import Path

import memory_trees as trees
import pytest
from memory_trees import GIB, MIB, STEP

from entrypoint.node.cgroup import Cgroup, CgroupMemory, CgroupVersion, group_memory, groups_of, merged

V1_LINES = "9:name=systemd:/\n7:cpu,cpuacct:/x\n4:memory:{path}\n0::/unified"


def looked(root: Path, pid: int | None = None) -> list[CgroupMemory]:
    return [memory for memory in map(group_memory, groups_of(pid, root)) if memory is not None]


# Where they are


def test_a_slurm_step_is_found_with_every_group_above_it(tmp_path: Path):
    trees.mi300a(tmp_path)
    found = groups_of(102, tmp_path)
    assert [group.path for group in found] == [
        STEP,
        "/system.slice/slurmstepd.scope/job_7/step_0/user",
        "/system.slice/slurmstepd.scope/job_7/step_0",
        "/system.slice/slurmstepd.scope/job_7",
        "/system.slice/slurmstepd.scope",
        "/system.slice",
        "/",
    ]
    assert [group.is_own for group in found] == [True] + [False] * 6
    assert {group.version for group in found} == {CgroupVersion.V2}
    assert all(group.is_exact for group in found)


def test_version_1_is_taken_wherever_it_has_the_memory(tmp_path: Path):
    trees.v1_group(tmp_path, "/slurm/uid_1/job_7", current=5)
    trees.in_group(tmp_path, "self", V1_LINES.format(path="/slurm/uid_1/job_7"))
    found = groups_of(None, tmp_path)
    assert [group.path for group in found] == ["/slurm/uid_1/job_7", "/slurm/uid_1", "/slurm", "/"]
    assert {group.version for group in found} == {CgroupVersion.V1}


@pytest.mark.parametrize(
    ("mounted", "expected"),
    [
        ("job_7/step_0/user/task_0", "/job_7/step_0/user/task_0"),
        ("user/task_0", "/user/task_0"),
        ("", "/"),
    ],
)
def test_in_a_container_the_beginning_of_the_path_may_be_missing(tmp_path: Path, mounted: str, expected: str):
    trees.v2_group(tmp_path, mounted, current=5)
    trees.in_group(tmp_path, "self", f"0::{STEP}")
    own = groups_of(None, tmp_path)[0]
    assert own.path == expected
    assert own.is_own
    assert not own.is_exact


def test_in_a_container_of_version_1_the_mount_itself_is_the_group(tmp_path: Path):
    trees.v1_group(tmp_path, "/", current=70 * MIB, limit=100 * MIB, kills=1)
    trees.in_group(tmp_path, "self", V1_LINES.format(path="/machine/libpod-0123"))
    assert looked(tmp_path) == [CgroupMemory("/", True, 70 * MIB, 100 * MIB, oom_kills=1)]


def test_in_a_namespace_of_groups_the_path_is_the_mount(tmp_path: Path):
    trees.v2_group(tmp_path, "/", current=7, limit=9)
    trees.in_group(tmp_path, "self", "0::/")
    (group,) = groups_of(None, tmp_path)
    assert (group.path, group.is_own, group.is_exact) == ("/", True, True)


def test_a_path_that_leads_out_of_the_mount_does_not(tmp_path: Path):
    trees.v2_group(tmp_path, "task", current=7)
    trees.write(tmp_path / "sys/fs/memory.current", "1\n")
    trees.in_group(tmp_path, "self", "0::/../../task")
    assert [group.path for group in groups_of(None, tmp_path)] == ["/task", "/"]


@pytest.mark.parametrize("text", ["", "garbage", "0", "0:", "0::", "5:cpu:/x", "4:memorys:/x", "\0\0:\0"])
def test_a_process_without_a_group_has_none(tmp_path: Path, text: str):
    trees.v2_group(tmp_path, "/x", current=7)
    assert groups_of(None, tmp_path) == ()
    trees.in_group(tmp_path, "self", text)
    assert groups_of(None, tmp_path) == ()


def test_without_a_mount_there_are_none(tmp_path: Path):
    trees.in_group(tmp_path, "self", "0::/x")
    assert groups_of(None, tmp_path) == ()


# What they say


def test_page_cache_is_headroom_and_everything_else_is_not(tmp_path: Path):
    trees.v2_group(tmp_path, "/a", current=90 * GIB, limit=100 * GIB, files=60 * GIB)
    trees.in_group(tmp_path, "self", "0::/a")
    memory = looked(tmp_path)[0]
    assert (memory.current_bytes, memory.limit_bytes, memory.reclaimable_bytes) == (90 * GIB, 100 * GIB, 60 * GIB)
    assert memory.headroom_bytes == 70 * GIB


def test_in_version_1_the_figures_of_all_groups_below_count(tmp_path: Path):
    trees.v1_group(tmp_path, "/a", current=90 * GIB, limit=100 * GIB, files=20 * GIB, active=5 * GIB)
    trees.in_group(tmp_path, "self", "4:memory:/a")
    assert looked(tmp_path)[0].headroom_bytes == 35 * GIB


@pytest.mark.parametrize("limit", [str(trees.V1_NO_LIMIT), "-1", "x"])
def test_no_limit_of_version_1_is_none(tmp_path: Path, limit: str):
    trees.v1_group(tmp_path, "/a", current=5)
    trees.write(tmp_path / "sys/fs/cgroup/memory/a/memory.limit_in_bytes", limit)
    trees.in_group(tmp_path, "self", "4:memory:/a")
    memory = looked(tmp_path)[0]
    assert memory.limit_bytes is None
    assert memory.headroom_bytes is None


def test_over_its_limit_a_group_has_no_headroom_and_never_less(tmp_path: Path):
    trees.v2_group(tmp_path, "/a", current=101, limit=100)
    trees.in_group(tmp_path, "self", "0::/a")
    assert looked(tmp_path)[0].headroom_bytes == 0


def test_version_2_tells_the_kills_of_the_group_itself(tmp_path: Path):
    trees.v2_group(tmp_path, "/a", current=5, kills=7, local=2)
    trees.in_group(tmp_path, "self", "0::/a")
    assert looked(tmp_path)[0].oom_kills == 2


def test_an_older_kernel_tells_those_below_as_well(tmp_path: Path):
    trees.v2_group(tmp_path, "/a", current=5, kills=7)
    trees.in_group(tmp_path, "self", "0::/a")
    assert looked(tmp_path)[0].oom_kills == 7


def test_where_only_an_outer_group_is_seen_those_below_count(tmp_path: Path):
    trees.v2_group(tmp_path, "/", current=5, kills=7, local=0)
    trees.in_group(tmp_path, "self", f"0::{STEP}")
    assert looked(tmp_path)[0].oom_kills == 7


def test_the_topmost_group_of_version_2_has_nothing_to_say(tmp_path: Path):
    trees.v2_group(tmp_path, "/a", current=5)
    trees.write(tmp_path / "sys/fs/cgroup/cgroup.procs", "1\n")
    trees.in_group(tmp_path, "self", "0::/a")
    assert [memory.path for memory in looked(tmp_path)] == ["/a"]


def test_counters_that_cannot_be_read_are_unknown(tmp_path: Path):
    trees.v2_group(tmp_path, "/a", current=5, limit=10)
    for name in ("memory.events", "memory.stat"):
        (tmp_path / "sys/fs/cgroup/a" / name).unlink()
    trees.in_group(tmp_path, "self", "0::/a")
    assert looked(tmp_path) == [CgroupMemory("/a", True, 5, 10)]


@pytest.fixture
def forbidden(tmp_path: Path) -> Iterator[Path]:
    """A tree in which a group's directory may not be entered by anybody but root."""
    trees.v2_group(tmp_path, "/a/b", current=5)
    trees.in_group(tmp_path, "self", "0::/a/b")
    (tmp_path / "sys/fs/cgroup/a").chmod(0)
    yield tmp_path
    (tmp_path / "sys/fs/cgroup/a").chmod(0o700)


def test_a_directory_that_may_not_be_entered_is_no_error(forbidden: Path):
    below_a = [memory.path for memory in looked(forbidden)]
    assert below_a == (["/a/b"] if os.geteuid() == 0 else [])


def test_chains_are_merged_and_each_processs_own_group_stays_its_own():
    own = Cgroup("/m/a", "/a", CgroupVersion.V2, is_own=True, is_exact=True)
    above = Cgroup("/m/a", "/a", CgroupVersion.V2, is_own=False, is_exact=True)
    below = Cgroup("/m/a/b", "/a/b", CgroupVersion.V2, is_own=True, is_exact=True)
    assert merged(((below, above), (own,))) == (below, own)
    assert merged(((own,), (below, above))) == (own, below)
    assert merged(((below, above), (below, above))) == (below, above)
