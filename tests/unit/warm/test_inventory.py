"""What caches take up, in the time that there is."""

import itertools
import os
from pathlib import Path

import pytest
from cache_trees import caches, write

from entrypoint.node.filesystems import FileSystem
from entrypoint.warm import inventory
from entrypoint.warm.inventory import CacheSize, Inventory, sizes

DISK, MEMORY = FileSystem("ext4", "/"), "tmpfs"
BLOCK = 4096
LATER_S = 10.0


def look(tree: Path, *mounts: FileSystem, deadline_s: float = LATER_S, tick_s: float = 0.0) -> Inventory:
    """Take the inventory with a clock that goes on at each look."""
    ticks = itertools.count()
    return sizes(caches(tree), tree, (DISK, *mounts), deadline_s=deadline_s, clock=lambda: next(ticks) * tick_s)


def of(found: Inventory, variable: str) -> CacheSize:
    return next(cache for cache in found.caches if cache.variable == variable)


def test_files_are_counted_by_variable_with_what_they_take_up(tmp_path: Path):
    write(tmp_path / "triton" / "a" / "k.json", b"x")
    write(tmp_path / "triton" / "a" / "k.hsaco", b"x" * 3 * BLOCK)
    write(tmp_path / "inductor" / "c", b"x" * BLOCK)
    found = look(tmp_path)
    assert found.is_complete
    triton = of(found, "TRITON_CACHE_DIR")
    taken = sum(path.stat().st_blocks * 512 for path in (tmp_path / "triton" / "a").iterdir())
    assert (triton.files, triton.size_bytes, triton.path) == (2, taken, tmp_path / "triton")
    assert triton.size_bytes >= 3 * BLOCK + 1
    assert of(found, "TORCHINDUCTOR_CACHE_DIR").files == 1
    assert found.size_bytes == sum(cache.size_bytes for cache in found.caches)


def test_caches_that_keep_nothing_for_others_are_counted_too(tmp_path: Path):
    write(tmp_path / "xdg" / "a", b"x" * BLOCK)
    assert of(look(tmp_path), "XDG_CACHE_HOME").files == 1


def test_a_cache_that_lies_in_no_tree_is_passed_over(tmp_path: Path):
    write(tmp_path / "weights", b"x" * BLOCK)
    found = look(tmp_path)
    assert "HF_HOME" not in {cache.variable for cache in found.caches}
    assert found.size_bytes == 0


def test_a_tree_that_is_not_there_takes_up_nothing(tmp_path: Path):
    found = look(tmp_path / "none")
    assert (found.size_bytes, found.is_complete) == (0, True)


def test_links_are_not_followed(tmp_path: Path):
    write(tmp_path / "outside" / "large", b"x" * 100 * BLOCK)
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "out").symlink_to(tmp_path / "outside")
    assert of(look(tmp_path), "TRITON_CACHE_DIR").size_bytes <= BLOCK


def test_what_lies_in_memory_is_told(tmp_path: Path):
    write(tmp_path / "triton" / "k", b"x" * BLOCK)
    write(tmp_path / "inductor" / "c", b"x" * BLOCK)
    assert look(tmp_path).in_memory_bytes == 0
    found = look(tmp_path, FileSystem(MEMORY, str(tmp_path / "triton")))
    assert {cache.variable for cache in found.caches if cache.in_memory} == {"TRITON_CACHE_DIR"}
    assert found.in_memory_bytes == of(found, "TRITON_CACHE_DIR").size_bytes
    assert look(tmp_path, FileSystem(MEMORY, str(tmp_path))).in_memory_bytes == found.size_bytes


@pytest.mark.parametrize("shape", ["one directory", "many directories"])
def test_the_inventory_ends_when_the_time_is_over_and_says_so(tmp_path: Path, shape: str):
    for number in range(500):
        write(tmp_path / "aiter" / "jit" / (f"{number}.so" if shape == "one directory" else f"{number}/a.so"))
    found = look(tmp_path, deadline_s=5 if shape == "one directory" else 100, tick_s=1)
    assert not found.is_complete
    assert 0 < of(found, "AITER_JIT_DIR").files < 500
    assert of(found, "TRITON_CACHE_DIR").files == 0


def test_an_inventory_that_has_the_time_counts_them_all(tmp_path: Path):
    for number in range(500):
        write(tmp_path / "aiter" / "jit" / f"{number}.so")
    found = look(tmp_path, deadline_s=100, tick_s=1)
    assert found.is_complete
    assert of(found, "AITER_JIT_DIR").files == 500


def test_what_cannot_be_read_is_not_counted_and_the_rest_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "triton" / "a" / "k")
    write(tmp_path / "triton" / "b" / "k")
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("/a"):
            raise PermissionError
        return real(path)

    monkeypatch.setattr(inventory.os, "scandir", scandir)
    assert of(look(tmp_path), "TRITON_CACHE_DIR").files == 1
