"""Staging directories are private, gone afterwards, and what the dead left of them goes too."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cache_trees import NOW_S

from entrypoint.warm.lock_owner import Vantage
from entrypoint.warm.staging import FORGOTTEN_S, Maker, clear, staging, staging_beside

LIVING, DEAD, REUSED = 100, 200, 300


def process(proc: Path, pid: int, started_ticks: int, state: str = "S") -> None:
    """Let there be a process, as the kernel tells of it."""
    (proc / str(pid)).mkdir(parents=True)
    words = [state, *["0"] * 18, str(started_ticks), "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} (a b) {' '.join(words)}")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    proc = tmp_path / "proc"
    process(proc, LIVING, 5)
    process(proc, REUSED, 9)
    process(proc, 1, 5)
    return proc


@pytest.fixture
def make(proc: Path) -> Callable[..., Maker]:
    def make(pid: int = 1, host: str = "n-0", namespace: int = 17, ticks: int = 5) -> Maker:
        return Maker(pid, Vantage(host, namespace, 0, 0.0, proc), ticks)

    return make


def left(directory: Path, age_s: float = 60.0) -> Path:
    """Let something have been left, so long ago."""
    directory.mkdir(parents=True)
    (directory / "half.so").write_text("half")
    os.utime(directory, (NOW_S - age_s, NOW_S - age_s))
    return directory


def test_a_staging_directory_lies_in_its_tree_and_is_gone_afterwards(tmp_path: Path, make: Callable[..., Maker]):
    tree = tmp_path / "deep" / "tree"
    with staging(tree, make(), NOW_S) as directory:
        assert directory.is_dir()
        assert directory.parent == tree / ".staging"
        (directory / "a").mkdir()
    assert list(tree.iterdir()) == []


def test_it_is_gone_too_where_copying_failed(tmp_path: Path, make: Callable[..., Maker]):
    with pytest.raises(KeyError), staging(tmp_path, make(), NOW_S):
        raise KeyError
    assert not (tmp_path / ".staging").exists()


def test_two_of_one_process_are_two(tmp_path: Path, make: Callable[..., Maker]):
    with staging(tmp_path, make(), NOW_S) as first, staging(tmp_path, make(), NOW_S) as second:
        assert first != second
        assert first.is_dir()


def test_a_directory_that_becomes_a_tree_lies_beside_it(tmp_path: Path, make: Callable[..., Maker]):
    tree = tmp_path / "arch" / "family"
    with staging_beside(tree, make(), NOW_S) as directory:
        assert directory.parent == tree.parent
        assert directory.name.startswith("family.staging-n-0-")
        directory.rename(tree)
    assert list(tree.parent.iterdir()) == [tree]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("maker", "age_s", "goes"),
    [
        pytest.param({"pid": DEAD}, 0, True, id="dead"),
        pytest.param({"pid": REUSED}, 0, True, id="its number is another's now"),
        pytest.param({"pid": LIVING}, 0, False, id="living"),
        pytest.param({"pid": LIVING}, FORGOTTEN_S + 1, False, id="living and slow"),
        pytest.param({"pid": DEAD, "host": "n-1"}, FORGOTTEN_S - 1, False, id="another host"),
        pytest.param({"pid": DEAD, "host": "n-1"}, FORGOTTEN_S + 1, True, id="another host, forgotten"),
        pytest.param({"pid": DEAD, "namespace": 18}, FORGOTTEN_S - 1, False, id="another container"),
        pytest.param({"pid": DEAD, "namespace": 18}, FORGOTTEN_S + 1, True, id="another container, forgotten"),
    ],
)
def test_what_was_left_goes_with_the_next_and_what_is_in_use_stays(
    tmp_path: Path, make: Callable[..., Maker], *, maker: dict[str, object], age_s: float, goes: bool, beside: bool
):
    tree = tmp_path / "tree"
    name = make(**maker).new_name()
    directory = left(tree.with_name(f"tree.staging-{name}") if beside else tree / ".staging" / name, age_s)
    with (staging_beside if beside else staging)(tree, make(), NOW_S):
        assert directory.exists() is not goes
    assert directory.exists() is not goes


def test_a_kernel_that_does_not_tell_namespaces_leaves_it_to_age(tmp_path: Path, make: Callable[..., Maker]):
    me = make(namespace=0)
    young = left(tmp_path / make(DEAD, namespace=0).new_name())
    old = left(tmp_path / make(DEAD, namespace=0).new_name(), FORGOTTEN_S + 1)
    clear(tmp_path, me, NOW_S)
    assert (young.exists(), old.exists()) == (True, False)


def test_what_is_named_otherwise_goes_by_its_age(tmp_path: Path, make: Callable[..., Maker]):
    young, old = left(tmp_path / "n-0-200-x"), left(tmp_path / "whatever", FORGOTTEN_S + 1)
    clear(tmp_path, make(), NOW_S)
    assert (young.exists(), old.exists()) == (True, False)


def test_a_zombie_is_dead(tmp_path: Path, make: Callable[..., Maker], proc: Path):
    process(proc, 400, 5, "Z")
    directory = left(tmp_path / "s" / make(400).new_name())
    clear(tmp_path / "s", make(), NOW_S)
    assert not directory.exists()


def test_other_trees_beside_are_not_touched(tmp_path: Path, make: Callable[..., Maker]):
    dead = make(DEAD).new_name()
    others = [left(tmp_path / name, 10 * FORGOTTEN_S) for name in (f"tree2.staging-{dead}", "tree.staging", dead)]
    with staging_beside(tmp_path / "tree", make(), NOW_S):
        pass
    assert all(other.exists() for other in others)


def test_what_is_removed_is_first_out_of_its_makers_reach(
    tmp_path: Path, make: Callable[..., Maker], monkeypatch: pytest.MonkeyPatch
):
    directory = left(tmp_path / make(DEAD).new_name())
    removed: list[Path] = []
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: removed.append(path))
    clear(tmp_path, make(), NOW_S)
    assert not directory.exists()
    (aside,) = removed
    assert (aside / "half.so").exists()
    assert aside.name.startswith("n-0-17-1-")


def test_a_parent_that_others_remove_just_now_is_made_again(
    tmp_path: Path, make: Callable[..., Maker], monkeypatch: pytest.MonkeyPatch
):
    real, calls = os.mkdir, []

    def mkdir(path: Path, mode: int = 0o777) -> None:
        if "n-0" in str(path) and not calls:
            calls.append(path)
            path.parent.rmdir()
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with staging(tmp_path, make(), NOW_S) as directory:
        assert directory.is_dir()
    assert calls


def test_a_tree_that_cannot_be_written_is_told_by_its_error(tmp_path: Path, make: Callable[..., Maker]):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), staging(tmp_path / "file", make(), NOW_S):
        pass


def test_this_process_knows_when_it_began():
    maker = Maker.of(os.getpid(), Vantage.here())
    assert maker.started_ticks > 0
    assert not maker.is_left_over(Path("/nonexistent"), maker.new_name(), NOW_S)
