"""APU memory: as the driver tells it, which has no VRAM on an MI300A."""

from pathlib import Path

import memory_trees as trees
from memory_trees import GIB

from entrypoint.node.apu_memory import ApuMemory, apu_memory


def test_each_apu_of_an_mi300a_node_uses_gtt_and_no_vram(tmp_path: Path):
    trees.mi300a(tmp_path)
    found = apu_memory(tmp_path)
    assert [each.card for each in found] == ["card1", "card2", "card3", "card4"]
    assert found[1] == ApuMemory("card2", 128 * GIB, 71 * GIB)
    assert found[1].used_bytes == 71 * GIB


def test_a_gpu_with_memory_of_its_own_uses_both(tmp_path: Path):
    trees.apu(tmp_path, "card0", gtt_total=16 * GIB, gtt_used=GIB, vram=192 * GIB)
    trees.write(tmp_path / "sys/class/drm/card0/device/mem_info_vram_used", f"{90 * GIB}\n")
    (found,) = apu_memory(tmp_path)
    assert found.vram_total_bytes == 192 * GIB
    assert found.used_bytes == 91 * GIB


def test_a_card_of_another_driver_or_with_garbage_is_left_out(tmp_path: Path):
    trees.apu(tmp_path, "card2", gtt_total=5, gtt_used=3)
    trees.write(tmp_path / "sys/class/drm/card0/device/vendor", "0x1002\n")
    trees.apu(tmp_path, "card1", gtt_total=5, gtt_used=3)
    trees.write(tmp_path / "sys/class/drm/card1/device/mem_info_gtt_used", "a lot\n")
    assert [each.card for each in apu_memory(tmp_path)] == ["card2"]


def test_a_machine_without_gpus_has_none(tmp_path: Path):
    assert apu_memory(tmp_path) == ()
