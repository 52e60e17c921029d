"""Keys of software that is no longer run go, and nothing else does."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cache_trees import KEY, NOW_S, write

from entrypoint.plan.cache_key import CacheKey
from entrypoint.warm import prune as module
from entrypoint.warm.layers import MARKER
from entrypoint.warm.prune import MIN_AGE_S, Pruned, note_use, prunable, prune
from entrypoint.warm.tree_use import LOCK, USERS

DAY_S = 86400.0
OTHER = CacheKey("sglang-0", "gfx942", "qwen")


def lay_out(root: Path, key: CacheKey = OTHER, *names: str, age_s: float = 2 * MIN_AGE_S) -> Path:
    """Make a tree of a key, used last so long ago; return it."""
    tree = root / key.directory
    for name in names or (MARKER, "triton/KERNEL/k.json"):
        write(tree / name, b"x" * 10)
    set_age(tree, age_s)
    return tree


def set_age(tree: Path, age_s: float) -> None:
    for below, _, files in os.walk(tree):
        for name in files:
            os.utime(f"{below}/{name}", (NOW_S - age_s, NOW_S - age_s))


@contextmanager
def used(tree: Path) -> Iterator[None]:
    """Use a tree as a run does."""
    with (tree / LOCK).open("w") as lock:
        set_age(tree, 2 * MIN_AGE_S)
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def clear(root: Path, min_age_s: float = MIN_AGE_S) -> Pruned:
    return prune(root, KEY, now_unix_s=NOW_S, min_age_s=min_age_s)


def assert_left_alone(root: Path, path: Path) -> None:
    assert prunable(root, KEY) == ()
    assert clear(root, 0) == Pruned((), (), (), ())
    assert path.exists()


# What goes


def test_a_key_that_nobody_used_for_long_is_removed_with_all_its_trees(tmp_path: Path):
    lay_out(tmp_path, OTHER)
    lay_out(tmp_path, CacheKey("sglang-0", "cpu", "any"))
    (removed,) = clear(tmp_path).removed
    assert (removed.path, removed.size_bytes, removed.in_use) == (tmp_path / "sglang-0", 40, False)
    assert list(tmp_path.iterdir()) == []


def test_the_current_software_stays_whatever_its_age(tmp_path: Path):
    tree = lay_out(tmp_path, KEY)
    other = lay_out(tmp_path, CacheKey(KEY.software, "gfx90a", "any"))
    assert_left_alone(tmp_path, tree)
    assert other.exists()


def test_a_key_is_told_with_its_last_use(tmp_path: Path):
    tree = lay_out(tmp_path, age_s=50 * DAY_S)
    os.utime(tree / "triton/KERNEL/k.json", (NOW_S - 40 * DAY_S, NOW_S - 60 * DAY_S))
    (found,) = prunable(tmp_path, KEY)
    assert found.last_use_unix_s == NOW_S - 40 * DAY_S


@pytest.mark.parametrize(("age_s", "goes"), [(MIN_AGE_S - 1, False), (MIN_AGE_S, True)])
def test_a_key_that_was_used_lately_stays(tmp_path: Path, *, age_s: float, goes: bool):
    tree = lay_out(tmp_path, age_s=age_s)
    done = clear(tmp_path)
    assert (len(done.removed), len(done.recent)) == ((1, 0) if goes else (0, 1))
    assert tree.exists() is not goes


def test_a_note_of_use_keeps_a_key_whose_files_nobody_touched(tmp_path: Path):
    tree = lay_out(tmp_path)
    note_use(tree)
    os.utime(tree / "used", (NOW_S - DAY_S, NOW_S - DAY_S))
    assert len(clear(tmp_path).recent) == 1
    note_use(tmp_path / "none" / "of" / "them")


@pytest.mark.parametrize(
    "names",
    [
        pytest.param((MARKER,), id="begun and empty"),
        pytest.param((MARKER, "new-cache/a"), id="with a place of another version"),
        pytest.param((LOCK, "new-cache/a"), id="local, with a place of another version"),
        pytest.param(("aiter/jit/a.so", "home/.aiter/jit/a.so"), id="known places alone"),
        pytest.param(("triton/k", "learned.json", f"{USERS}/n0.json", ".staging/x/a"), id="and what is ours"),
    ],
)
def test_a_tree_is_known_by_its_marks_or_its_places(tmp_path: Path, names: tuple[str, ...]):
    tree = lay_out(tmp_path, OTHER, *names)
    assert len(clear(tmp_path).removed) == 1
    assert not tree.exists()


def test_a_tree_that_was_never_finished_goes_with_its_key(tmp_path: Path):
    lay_out(tmp_path)
    lay_out(tmp_path, CacheKey("sglang-0", "gfx942", "any.staging-n0-1-2-3-ab"), "triton/k")
    assert len(clear(tmp_path).removed) == 1


# What is not a key


@pytest.mark.parametrize(
    ("key", "names"),
    [
        pytest.param(CacheKey("flags", "gfx942", "any"), (), id="flags"),
        pytest.param(CacheKey("Models", "gfx942", "any"), (), id="a name that no key has"),
        pytest.param(CacheKey(".hidden", "gfx942", "any"), (), id="hidden"),
        pytest.param(CacheKey("data", "images", "any"), (), id="no architecture"),
        pytest.param(CacheKey("data", "cpufreq", "any"), (), id="almost an architecture"),
        pytest.param(OTHER, ("model.safetensors",), id="a tree without marks"),
        pytest.param(OTHER, ("triton/k", "thesis/a.tex"), id="a directory of somebody beside a known place"),
        pytest.param(OTHER, ("used",), id="a file of ours alone"),
        pytest.param(OTHER, (f"deep/{MARKER}",), id="a mark that lies too deep"),
    ],
)
def test_what_does_not_look_like_a_key_is_left_alone(tmp_path: Path, key: CacheKey, names: tuple[str, ...]):
    assert_left_alone(tmp_path, lay_out(tmp_path, key, *names))


@pytest.mark.parametrize("stray", ["notes.txt", "gfx942/notes.txt", "gfx942/other/data.bin", "src/any/triton/k"])
def test_a_key_with_something_else_in_it_is_left_alone(tmp_path: Path, stray: str):
    tree = lay_out(tmp_path)
    write(tmp_path / OTHER.software / stray)
    assert_left_alone(tmp_path, tree)


@pytest.mark.parametrize("at", ["sglang-0", "sglang-0/gfx942", "sglang-0/gfx942/qwen"])
def test_links_are_not_followed(tmp_path: Path, at: str):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    lay_out(elsewhere)
    (root / at).parent.mkdir(parents=True)
    (root / at).symlink_to(elsewhere / at)
    assert_left_alone(root, elsewhere / OTHER.directory / MARKER)


def test_a_link_to_a_marker_is_no_marker(tmp_path: Path):
    tree = lay_out(tmp_path, OTHER, "data/x")
    write(tmp_path / "elsewhere" / MARKER)
    (tree / MARKER).symlink_to(tmp_path / "elsewhere" / MARKER)
    assert_left_alone(tmp_path, tree)


def test_files_and_a_root_that_is_not_there_are_no_keys(tmp_path: Path):
    assert_left_alone(tmp_path, write(tmp_path / "sglang-0"))
    assert prunable(tmp_path / "none", KEY) == ()


# What is in use


def test_what_a_living_run_uses_stays(tmp_path: Path):
    tree = lay_out(tmp_path)
    with used(tree):
        (found,) = prunable(tmp_path, KEY)
        assert found.in_use
        assert clear(tmp_path).in_use == (found,)
        assert tree.exists()
    assert len(clear(tmp_path).removed) == 1


def test_a_run_that_uses_one_tree_of_a_key_keeps_all_of_it(tmp_path: Path):
    lay_out(tmp_path)
    other = lay_out(tmp_path, CacheKey("sglang-0", "gfx942", "any"))
    with used(other):
        assert clear(tmp_path).removed == ()


def test_a_run_that_begins_between_the_look_and_the_removal_keeps_its_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tree = lay_out(tmp_path)
    look = module.prunable
    with used(tree):
        pass
    begun = used(tree)

    def and_then(root: Path, keep: CacheKey) -> object:
        found = look(root, keep)
        begun.__enter__()
        return found

    monkeypatch.setattr(module, "prunable", and_then)
    done = clear(tmp_path)
    assert (done.removed, len(done.in_use)) == ((), 1)
    assert (tree / MARKER).exists()
    begun.__exit__(None, None, None)


def test_a_lock_that_cannot_be_looked_at_may_be_held(tmp_path: Path):
    tree = lay_out(tmp_path)
    (tree / LOCK).symlink_to("elsewhere")
    assert len(clear(tmp_path).in_use) == 1


def test_where_there_are_no_locks_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree = lay_out(tmp_path)
    with used(tree):
        pass

    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, "")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert len(clear(tmp_path).removed) == 1


# How it goes


def test_a_key_is_renamed_before_it_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lay_out(tmp_path)
    seen: list[Path] = []
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: seen.append(path))
    clear(tmp_path)
    (aside,) = seen
    assert aside.name.startswith(".pruned-")
    assert (aside / "gfx942" / "qwen" / MARKER).exists()
    assert not (tmp_path / OTHER.software).exists()


def test_what_an_earlier_one_did_not_finish_is_removed(tmp_path: Path):
    half, other = tmp_path / ".pruned-0123456789ab", tmp_path / ".pruned-by-hand"
    write(half / "gfx942" / "a")
    write(other / "a")
    clear(tmp_path)
    assert not half.exists()
    assert other.exists()


def test_what_cannot_be_removed_is_told_and_the_others_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree = lay_out(tmp_path)
    lay_out(tmp_path, CacheKey("sglang-9", "cpu", "any"))
    real = Path.rename

    def rename(path: Path, other: Path) -> Path:
        if path.name == OTHER.software:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, other)

    monkeypatch.setattr(Path, "rename", rename)
    done = clear(tmp_path)
    assert [key.path.name for key in done.removed] == ["sglang-9"]
    ((path, reason),) = done.failures
    assert path == tmp_path / OTHER.software
    assert os.strerror(errno.EROFS) in reason
    assert tree.exists()
