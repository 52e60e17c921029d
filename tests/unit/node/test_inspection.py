"""The node as plain data, from a recorded tree of an MI300A node and from trees that lack something."""

from pathlib import Path

import pytest
from memory_trees import GIB, write
from node_trees import mi300a

from entrypoint.node.accelerators import Accelerator, accelerators
from entrypoint.node.fabric import fabric
from entrypoint.node.filesystems import FileSystem, file_system_of, file_systems
from entrypoint.node.inspection import inspect
from entrypoint.node.limits import limits
from entrypoint.node.processors import processors


def test_an_mi300a_node_is_read_whole(tmp_path: Path):
    node = inspect({}, mi300a(tmp_path))
    assert node.processors.online == 192
    assert node.accelerators == (Accelerator("gfx942", 228),) * 4
    assert [card.vram_total_bytes for card in node.apu_memory] == [0, 0, 0, 0]
    assert node.memory.node is not None
    assert node.memory.node.total_bytes // GIB == 513
    assert node.memory.headroom_bytes == 490 * GIB
    assert node.fabric.devices == ("cxi0", "cxi1", "cxi2", "cxi3")
    assert node.fabric.interfaces == ("hsn0", "hsn1", "hsn2", "hsn3")


def test_an_empty_tree_is_a_node_of_which_nothing_is_known(tmp_path: Path):
    node = inspect({}, tmp_path)
    assert node.processors.online is None
    assert node.accelerators == ()
    assert node.memory.headroom_bytes is None
    assert node.mounts == ()
    assert node.limits.shared_memory_bytes is None


# Processors


@pytest.mark.parametrize(
    ("text", "online"), [("0-191", 192), ("0", 1), ("0-3,8-11", 8), ("", None), ("0-x", None), ("0-3,", None)]
)
def test_processors_are_counted_from_the_kernels_ranges(tmp_path: Path, text: str, online: int | None):
    write(tmp_path / "sys/devices/system/cpu/online", f"{text}\n")
    assert processors(tmp_path).online == online


def test_the_machine_itself_has_processors():
    found = processors()
    assert found.allowed > 0
    assert found.online is None or found.allowed <= found.online


# Accelerators


@pytest.mark.parametrize(
    ("version", "name"), [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (110501, "gfx1151")]
)
def test_an_architecture_is_named_as_compilers_name_it(tmp_path: Path, version: int, name: str):
    properties = f"simd_count 8\nsimd_per_cu 2\ngfx_target_version {version}\n"
    write(tmp_path / "sys/class/kfd/kfd/topology/nodes/0/properties", properties)
    assert accelerators(tmp_path) == (Accelerator(name, 4),)


@pytest.mark.parametrize("properties", ["", "simd_count 8\n", "simd_count 0\nsimd_per_cu 0\ngfx_target_version 0\n"])
def test_what_has_no_compute_units_is_no_gpu(tmp_path: Path, properties: str):
    write(tmp_path / "sys/class/kfd/kfd/topology/nodes/0/properties", properties)
    assert accelerators(tmp_path) == ()


# File systems


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/iopsstor/scratch/me/hub", "lustre"),
        ("/iopsstor", "lustre"),
        ("/iopsstor2/x", "overlay"),
        ("/ritom/scratch", "nfs4"),
        ("/tmp/supervise", "tmpfs"),
        ("/opt/venv", "overlay"),
        ("/local disk/cache", "ext4"),
    ],
)
def test_a_path_lies_on_the_mount_that_is_nearest_above_it(tmp_path: Path, path: str, kind: str):
    found = file_system_of(Path(path), file_systems(mi300a(tmp_path)))
    assert found is not None
    assert found.kind == kind


def test_a_later_mount_covers_an_earlier_one_at_the_same_place():
    mounts = (FileSystem("ext4", "/data"), FileSystem("nfs", "/data"))
    assert file_system_of(Path("/data/x"), mounts) == mounts[1]


def test_without_a_table_nothing_is_known():
    assert file_system_of(Path("/data"), ()) is None


def test_lines_that_make_no_sense_are_passed_over(tmp_path: Path):
    write(tmp_path / "proc/self/mountinfo", "nonsense\n1 2 3\n - tmpfs\n1 2 0:1 / /a rw - \n")
    assert file_systems(tmp_path) == ()


def test_what_kind_it_is_says_how_it_may_be_used():
    kinds = {kind: FileSystem(kind, "/") for kind in ("nfs4", "lustre", "tmpfs", "overlay", "ext4")}
    assert {kind for kind, each in kinds.items() if each.on_network} == {"nfs4", "lustre"}
    assert {kind for kind, each in kinds.items() if each.in_memory} == {"tmpfs"}
    assert {kind for kind, each in kinds.items() if each.of_the_container} == {"overlay"}


# Fabric


def test_the_plugin_is_found_where_the_loader_would_look(tmp_path: Path):
    write(tmp_path / "opt/lib/librccl-net.so", "")
    assert fabric({"LD_LIBRARY_PATH": "/none:/opt/lib"}, tmp_path).plugin == "/opt/lib/librccl-net.so"
    assert fabric({"LD_LIBRARY_PATH": "/none"}, tmp_path).plugin is None


def test_a_plugin_that_is_named_is_looked_for_by_its_name(tmp_path: Path):
    write(tmp_path / "opt/lib/libnccl-net-ofi.so", "")
    environ = {"LD_LIBRARY_PATH": "/opt/lib"}
    assert fabric({**environ, "NCCL_NET_PLUGIN": "ofi"}, tmp_path).plugin == "/opt/lib/libnccl-net-ofi.so"
    assert fabric(environ, tmp_path).plugin is None


def test_the_plugin_of_the_container_engines_hook_is_found(tmp_path: Path):
    write(tmp_path / "opt/cscs/netstack/librccl-net.so", "")
    assert fabric({}, tmp_path).plugin == "/opt/cscs/netstack/librccl-net.so"


def test_this_process_may_open_files():
    assert limits().open_files > 0
