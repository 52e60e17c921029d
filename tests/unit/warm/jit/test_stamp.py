"""The stamp: what it is about, and what it vouches for."""

from dataclasses import replace
from pathlib import Path

import pytest

from entrypoint.plan.caches import CACHE_RULES, CacheDirectory
from entrypoint.warm.jit import learned, stamp
from entrypoint.warm.jit.stamp import Stamp, Subject
from entrypoint.warm.jit.step import Step

ABOUT = stamp.subject("sglang-1/gfx942/kimi-k2", {"tp_size": ("4",), "port": ("30000",)}, (Step.of_module("module_a"),))


def caches(tree: Path) -> list[CacheDirectory]:
    return [
        CacheDirectory(rule.variable, tree / rule.place, rule.layer, "", tree, rule.place, rule.entries)
        for rule in CACHE_RULES
    ]


def put(path: Path, content: bytes = b"library") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_stamp_is_read_as_it_was_written(tmp_path: Path):
    made = Stamp({"aiter/jit/module_a.so": 7}, {"norms": "no compiler"})
    stamp.write(tmp_path, ABOUT, made)
    assert stamp.read(tmp_path, ABOUT) == made
    assert [path.name for path in (tmp_path / stamp.DIRECTORY).iterdir()] == [ABOUT.file_name]


@pytest.mark.parametrize(
    "other",
    [
        replace(ABOUT, key="sglang-2/gfx942/kimi-k2"),
        replace(ABOUT, steps=(*ABOUT.steps, Step.of_module("module_b"))),
        replace(ABOUT, flags={"tp_size": ("8",)}),
    ],
)
def test_other_software_other_steps_and_other_kernels_need_another_stamp(tmp_path: Path, other: Subject):
    stamp.write(tmp_path, ABOUT, Stamp({}, {}))
    assert stamp.read(tmp_path, other) is None


def test_a_flag_that_chooses_no_kernel_changes_nothing():
    same = stamp.subject(ABOUT.key, {"tp_size": ("4",), "port": ("1",)}, ABOUT.steps)
    assert same == ABOUT


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"about": {}}', b"\xff" * 10])
def test_a_file_that_is_no_stamp_is_none(tmp_path: Path, content: bytes):
    put(tmp_path / stamp.DIRECTORY / ABOUT.file_name, content)
    assert stamp.read(tmp_path, ABOUT) is None


def test_a_purge_and_another_size_show(tmp_path: Path):
    kept, cut = put(tmp_path / "aiter/jit/a.so"), put(tmp_path / "aiter/jit/b.so")
    purged = put(tmp_path / "aiter/jit/c.so")
    made = Stamp(stamp.libraries(caches(tmp_path), tmp_path), {})
    assert stamp.missing(made, tmp_path) == ()
    cut.write_bytes(b"lib")
    purged.unlink()
    assert kept.exists()
    assert stamp.missing(made, tmp_path) == ("aiter/jit/b.so", "aiter/jit/c.so")


def test_a_stamp_vouches_for_libraries_and_for_nothing_that_fills_itself(tmp_path: Path):
    put(tmp_path / "aiter/jit/module_a.so")
    put(tmp_path / "aiter/root/build/pa_1/lib.so")
    put(tmp_path / "aiter/root/build/pa_2/pa.cpp")
    put(tmp_path / "torch_extensions/mine/mine.so")
    put(tmp_path / "triton/abc/kernel.hsaco")
    assert set(stamp.libraries(caches(tmp_path), tmp_path)) == {
        "aiter/jit/module_a.so",
        "aiter/root/build/pa_1/lib.so",
        "torch_extensions/mine/mine.so",
    }


def test_modules_are_learned_once_and_add_up(tmp_path: Path):
    assert learned.read(tmp_path) == frozenset()
    assert learned.add(tmp_path, ["module_a", "module_b"]) == {"module_a", "module_b"}
    assert learned.add(tmp_path, ["module_b", "module_c"]) == {"module_c"}
    assert learned.read(tmp_path) == {"module_a", "module_b", "module_c"}
    assert [path.name for path in tmp_path.iterdir()] == [learned.FILE]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"modules": 1}'])
def test_a_torn_list_of_what_was_learned_is_begun_anew(tmp_path: Path, content: str):
    (tmp_path / learned.FILE).write_text(content)
    assert learned.read(tmp_path) == frozenset()
    assert learned.add(tmp_path, ["module_a"]) == {"module_a"}
