"""Who uses a tree of caches, told by the kernel's locks."""

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from entrypoint.outcome import ExitCode
from entrypoint.warm.lock_owner import Vantage
from entrypoint.warm.tree_use import Foreign, TreeUse, User, enter, this_run

SOON_S = 0.05


def user(pid: int, host: str = "n0", job: str = "") -> User:
    return User(host, pid, 1, 100 + pid, 1000.0, job, "0", f"/runs/{pid}")


def use(tree: Path, pid: int = 1, host: str = "n0", patience_s: float = SOON_S) -> TreeUse:
    entered = enter(tree, tree, user(pid, host), patience_s)
    assert isinstance(entered, TreeUse)
    return entered


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tmp_path / "tree"


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


def test_the_first_run_is_alone(tree: Path):
    with use(tree) as first, first.alone() as alone:
        assert alone


def test_a_run_beside_another_is_not_alone(tree: Path):
    with use(tree) as first, use(tree, 2) as second:
        with first.alone():
            pass
        with second.alone() as alone:
            assert not alone


def test_a_run_after_another_is_alone(tree: Path):
    with use(tree) as first, first.alone():
        pass
    with use(tree, 2) as second, second.alone() as alone:
        assert alone


def test_after_the_block_the_tree_stays_in_use_and_others_may_join(tree: Path):
    with use(tree) as first, use(tree, 2) as second, use(tree, 3) as third:
        with first.alone() as alone:
            assert alone
        with second.alone(), third.alone():
            pass
        with second.alone() as alone:
            assert not alone


def test_a_run_that_was_not_alone_can_be_later(tree: Path):
    with use(tree, 2) as second:
        with use(tree) as first:
            with first.alone():
                pass
            with second.alone() as alone:
                assert not alone
        with second.alone() as alone:
            assert alone


def test_a_run_that_waits_no_longer_for_another_one_to_clear_is_not_alone_and_joins_afterwards(tree: Path):
    with use(tree) as first, use(tree, 2) as second:
        with first.alone(), second.alone() as alone:
            assert not alone
        with use(tree, 3) as third, third.alone() as alone:
            assert not alone


def test_a_block_that_fails_lets_others_in(tree: Path):
    def fail(first: TreeUse) -> None:
        with first.alone():
            raise ValueError

    with use(tree) as first, use(tree, 2) as second:
        with pytest.raises(ValueError, match=r"^$"):
            fail(first)
        with second.alone() as alone:
            assert not alone


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_nobody_is_alone_where_the_file_system_has_no_locks(tree: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    refuse(monkeypatch, number)
    with use(tree) as first, first.alone() as alone:
        assert not alone


def test_a_descriptor_that_lives_on_elsewhere_keeps_the_tree_in_use(tree: Path):
    with use(tree) as first:
        with first.alone():
            pass
        inherited = os.dup(first.fileno())
    with use(tree, 2) as second:
        with second.alone() as alone:
            assert not alone
        os.close(inherited)
        with second.alone() as alone:
            assert alone


def test_no_child_inherits_the_descriptor_by_accident(tree: Path):
    with use(tree) as first:
        assert not os.get_inheritable(first.fileno())


def test_a_tree_that_was_removed_and_made_anew_is_locked_as_the_new_one(tree: Path):
    with use(tree) as late:
        (tree / "in-use").unlink()
        with use(tree, 2) as early:
            with early.alone() as alone:
                assert alone
            with late.alone() as alone:
                assert not alone


# Who they are


def test_the_others_are_known_by_what_they_wrote(tree: Path):
    with use(tree) as first, use(tree, 2) as second:
        with first.alone():
            pass
        with second.alone():
            assert second.others() == (user(1),)
            assert first.others() == (user(2),)


def test_a_run_that_closes_takes_its_file_along(tree: Path):
    with use(tree) as first, first.alone():
        assert len(list((tree / "users").iterdir())) == 1
    assert list((tree / "users").iterdir()) == []


def dead_user(tree: Path, **fields: str) -> Path:
    (tree / "users").mkdir(parents=True, exist_ok=True)
    dead = tree / "users" / f"{fields['host']}-9-9.json"
    said = {"pid": 9, "pid_namespace": 1, "started_ticks": 9, "started_unix_s": 1.0, "job": "7", "step": "0"}
    dead.write_text(json.dumps({**said, "run_directory": "/runs/9", **fields}))
    return dead


def test_the_dead_are_known_while_their_locks_are_cleared_and_forgotten_afterwards(tree: Path):
    tree.mkdir(0o700)
    dead = dead_user(tree, host="n0")
    with use(tree) as first:
        with first.alone():
            assert [other.job for other in first.others()] == ["7"]
        assert not dead.exists()
        assert first.others() == ()


def test_the_dead_are_not_forgotten_by_a_run_that_is_not_alone(tree: Path):
    with use(tree) as first, use(tree, 2) as second:
        with first.alone():
            pass
        dead = dead_user(tree, host="n0")
        with second.alone():
            pass
        assert dead.exists()


def test_users_of_other_hosts_are_not_forgotten(tree: Path):
    tree.mkdir(0o700)
    elsewhere = dead_user(tree, host="n1")
    with use(tree) as first, first.alone():
        pass
    assert elsewhere.exists()


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"pid": 1}'])
def test_what_cannot_be_understood_is_nobody(tree: Path, content: str):
    tree.mkdir(0o700)
    (tree / "users").mkdir()
    (tree / "users" / "n0-5-5.json").write_text(content)
    with use(tree) as first:
        assert first.others() == ()
        with first.alone():
            pass
        assert not (tree / "users" / "n0-5-5.json").exists()


def test_a_disk_that_is_full_does_not_keep_a_run_out(tree: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with use(tree) as first:
        monkeypatch.setattr(Path, "write_text", full)
        with first.alone() as alone:
            assert alone


def test_a_run_knows_itself(tmp_path: Path):
    vantage = Vantage.here()
    environ = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "2"}
    me = this_run(environ, tmp_path / "run", vantage, os.getpid())
    assert (me.host, me.pid, me.pid_namespace) == (vantage.host, os.getpid(), vantage.pid_namespace)
    assert (me.job, me.step, me.run_directory) == ("4711", "2", str(tmp_path / "run"))
    assert me.started_unix_s == vantage.unix_s(me.started_ticks)
    assert me.file_name == f"{me.host}-{me.pid}-{me.started_ticks}.json"


def test_a_run_outside_of_slurm_has_no_job(tmp_path: Path):
    me = this_run({}, tmp_path, Vantage.here(), os.getpid())
    assert (me.job, me.step) == ("", "")


# Whose tree it is


def refusal(root: Path) -> str:
    entered = enter(root, root / "key", user(1))
    assert isinstance(entered, Foreign)
    assert entered.path == root
    return entered.reason


def test_a_root_that_is_missing_is_made_for_its_owner_alone(tmp_path: Path):
    root = tmp_path / "a" / "root"
    with use(root):
        assert root.stat().st_mode & 0o777 == 0o700


def test_a_tree_below_the_root_is_made(tmp_path: Path):
    root = tmp_path / "root"
    entered = enter(root, root / "engine" / "gfx942", user(1))
    assert isinstance(entered, TreeUse)
    with entered:
        assert (root / "engine" / "gfx942" / "in-use").exists()


def test_a_root_of_another_user_is_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "root").mkdir(0o700)
    owner = (tmp_path / "root").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert refusal(tmp_path / "root") == f"belongs to user {owner}"


def test_a_root_that_is_a_link_is_foreign(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir(0o700)
    (tmp_path / "root").symlink_to(tmp_path / "elsewhere")
    assert refusal(tmp_path / "root") == "is a link"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_root_that_is_a_file_is_foreign(tmp_path: Path):
    (tmp_path / "root").touch()
    assert refusal(tmp_path / "root") == "is no directory"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_root_that_others_may_write_in_is_foreign(tmp_path: Path, mode: int):
    (tmp_path / "root").mkdir()
    (tmp_path / "root").chmod(mode)
    assert refusal(tmp_path / "root") == f"can be written by others (its mode is {mode:o})"


def test_a_root_that_others_may_only_read_is_not_foreign(tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root").chmod(0o755)
    with use(tmp_path / "root"):
        pass


def test_a_foreign_tree_refuses_the_run_and_names_the_setting():
    finding = Foreign(Path("/tmp/x"), "belongs to user 1000").finding()
    assert finding.message.startswith("The directory /tmp/x for caches belongs to user 1000: ")
    assert finding.setting == "caches.local"
    assert finding.code is ExitCode.DIRECTORY_UNUSABLE


def test_a_lock_that_is_a_link_is_not_followed(tree: Path, tmp_path: Path):
    tree.mkdir(0o700)
    (tree / "in-use").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        enter(tree, tree, user(1))
    assert not (tmp_path / "elsewhere").exists()
