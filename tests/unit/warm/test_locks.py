"""Locks that builders leave behind: what is found, what is proven, and what is removed."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from entrypoint.plan.caches import CacheDirectory, CacheLayer
from entrypoint.warm import lock_removal
from entrypoint.warm.lock_finding import Lock, LockKind, find
from entrypoint.warm.lock_owner import INITIAL_PID_NAMESPACE, Alive, Owner, Vantage
from entrypoint.warm.lock_removal import Removal, remove
from entrypoint.warm.locks import ANY_BUILD_S, LockReport, Standing, Tenancy, clear, judge
from entrypoint.warm.tree_use import User

NOW_S = 2_000_000_000.0
MADE_S = NOW_S - 180
ALONE = Tenancy(alone=True, local=True)
BESIDE_OTHERS = Tenancy(alone=False, local=True)
NOTHING_KNOWN = Tenancy(alone=False, local=False)
CONTAINER = 4026532567


def cache(variable: str, path: Path, place: str = "place") -> CacheDirectory:
    return CacheDirectory(variable, path, CacheLayer.LOCAL, "", path, place)


def made(path: Path, content: str = "", at_s: float = MADE_S) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (at_s, at_s))
    return path


def made_directory(path: Path, at_s: float = MADE_S) -> Path:
    path.mkdir(parents=True)
    (path / "half").touch()
    os.utime(path, (at_s, at_s))
    return path


def found(variable: str, path: Path, place: str = "place") -> dict[str, LockKind]:
    return {lock.name: lock.kind for lock in find([cache(variable, path, place)], path / "no-tables")}


# Where they lie


def test_locks_of_aiters_modules_are_found(tmp_path: Path):
    made(tmp_path / "build/lock_module_rmsnorm")
    made(tmp_path / "build/module_rmsnorm/build/lock")
    made(tmp_path / "build/lock_3rdparty_clone_HipKittens")
    made(tmp_path / "build/lock_module_rmsnorm.steal")
    made(tmp_path / "build/module_rmsnorm/build/lock.steal")
    assert found("AITER_JIT_DIR", tmp_path) == {
        "build/lock_module_rmsnorm": LockKind.MODULE,
        "build/module_rmsnorm/build/lock": LockKind.MODULE_BUILD,
        "build/lock_3rdparty_clone_HipKittens": LockKind.CLONE,
        "build/lock_module_rmsnorm.steal": LockKind.HELPER,
        "build/module_rmsnorm/build/lock.steal": LockKind.HELPER,
    }


def test_locks_of_template_operators_are_found(tmp_path: Path):
    made(tmp_path / "build/pa_0123/lock")
    made(tmp_path / "build/pa_0123/lock.steal")
    made(tmp_path / "build/gfx942/kernel_0123.lock")
    assert found("AITER_ROOT_DIR", tmp_path) == {
        "build/pa_0123/lock": LockKind.TEMPLATE,
        "build/pa_0123/lock.steal": LockKind.HELPER,
        "build/gfx942/kernel_0123.lock": LockKind.TEMPLATE,
    }


def test_locks_below_the_home_are_found(tmp_path: Path):
    made(tmp_path / ".aiter/jit/build/lock_module_quant")
    made(tmp_path / ".aiter/jit/build/module_quant/build/lock")
    made(tmp_path / ".aiter/build/pa_0123/lock")
    assert found("HOME", tmp_path) == {
        ".aiter/jit/build/lock_module_quant": LockKind.MODULE,
        ".aiter/jit/build/module_quant/build/lock": LockKind.MODULE_BUILD,
        ".aiter/build/pa_0123/lock": LockKind.TEMPLATE,
    }


def test_locks_of_torch_extensions_are_found(tmp_path: Path):
    made(tmp_path / "my_ext/lock")
    assert found("TORCH_EXTENSIONS_DIR", tmp_path) == {"my_ext/lock": LockKind.TORCH_EXTENSION}


def test_unfinished_entries_of_triton_are_found(tmp_path: Path):
    made_directory(tmp_path / "HASH/tmp.pid_12_uuid")
    made_directory(tmp_path / "HASH2")
    assert found("TRITON_CACHE_DIR", tmp_path) == {"HASH/tmp.pid_12_uuid": LockKind.TRITON}


def test_locks_of_tuned_tables_are_found_and_are_in_no_tree(tmp_path: Path):
    table = made(tmp_path / "tables" / "tuned_fmoe.csv.lock")
    made(tmp_path / "tables" / "tuned_fmoe.csv")
    (lock,) = find([], tmp_path / "tables")
    assert (lock.kind, lock.path, lock.name, lock.in_tree) == (LockKind.TUNED_TABLE, table, str(table), False)


def test_a_cache_that_is_kept_elsewhere_by_a_wish_is_in_no_tree(tmp_path: Path):
    made(tmp_path / "my_ext/lock")
    assert not find([cache("TORCH_EXTENSIONS_DIR", tmp_path, place="")], tmp_path)[0].in_tree
    assert find([cache("TORCH_EXTENSIONS_DIR", tmp_path)], tmp_path)[0].in_tree


@pytest.mark.parametrize("variable", ["TVM_FFI_CACHE_DIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"])
def test_locks_that_stay_and_are_locked_in_the_kernel_are_never_touched(tmp_path: Path, variable: str):
    made(tmp_path / "module/lock")
    made(tmp_path / "build/lock_x")
    assert found(variable, tmp_path) == {}


def test_what_is_no_file_is_no_lock(tmp_path: Path):
    (tmp_path / "build/lock_a").mkdir(parents=True)
    (tmp_path / "build/lock_b").symlink_to(made(tmp_path / "elsewhere"))
    made(tmp_path / "build/module_x.so")
    assert found("AITER_JIT_DIR", tmp_path) == {}


def test_there_are_no_locks_where_there_is_no_directory(tmp_path: Path):
    assert find([cache("AITER_JIT_DIR", tmp_path / "none")], tmp_path / "none") == ()


# What is proven


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    path = made(tmp_path / "build/lock_module_x")
    return Lock(LockKind.MODULE, path, "build/lock_module_x", in_tree=True, status=path.stat())


def owner(alive: Alive = Alive.UNKNOWN, job: str = "", run_directory: str = "", since_s: float = MADE_S) -> Owner:
    return Owner(4711, "n1", since_s, job, alive, "as told", run_directory)


def standing(
    lock: Lock, owner: Owner, tenancy: Tenancy, job_ended: Callable[[Owner], bool] = lambda _: False
) -> Standing:
    return judge(lock, owner, tenancy, job_ended, NOW_S).standing


def yes(_: Owner) -> bool:
    return True


@pytest.mark.parametrize("tenancy", [ALONE, BESIDE_OTHERS, Tenancy(alone=True, local=True, ours=True)])
def test_a_lock_of_a_living_process_is_live_whatever_else_is_known(lock: Lock, tenancy: Tenancy):
    old = owner(Alive.YES, job="1", since_s=NOW_S - 10 * ANY_BUILD_S)
    assert judge(lock, old, tenancy, yes, NOW_S).standing is Standing.LIVE


def test_a_lock_of_a_dead_process_is_stale_wherever_it_lies(lock: Lock):
    assert standing(lock, owner(Alive.NO), NOTHING_KNOWN) is Standing.STALE


def test_a_lock_of_nobody_known_stays(lock: Lock):
    verdict = judge(lock, owner(), NOTHING_KNOWN, yes, NOW_S)
    assert (verdict.standing, verdict.why) == (Standing.UNKNOWN, "as told")


def test_a_lock_of_a_job_that_has_ended_is_stale(lock: Lock):
    verdict = judge(lock, owner(job="99"), NOTHING_KNOWN, yes, NOW_S)
    assert (verdict.standing, verdict.why) == (Standing.STALE, "job 99 has ended")


def test_a_lock_of_a_run_outside_of_slurm_that_has_ended_is_stale(lock: Lock):
    verdict = judge(lock, owner(run_directory="/runs/1"), NOTHING_KNOWN, yes, NOW_S)
    assert (verdict.standing, verdict.why) == (Standing.STALE, "its run has ended")


def test_a_lock_of_a_job_that_has_not_ended_stays(lock: Lock):
    assert standing(lock, owner(job="99"), NOTHING_KNOWN) is Standing.UNKNOWN


def test_a_lock_is_stale_in_a_tree_of_this_node_that_nobody_else_uses(lock: Lock):
    assert standing(lock, owner(), ALONE) is Standing.STALE


@pytest.mark.parametrize("tenancy", [BESIDE_OTHERS, Tenancy(alone=True, local=False), NOTHING_KNOWN])
def test_a_lock_stays_where_others_may_be_at_work(lock: Lock, tenancy: Tenancy):
    assert standing(lock, owner(), tenancy) is Standing.UNKNOWN


def test_being_alone_in_a_tree_says_nothing_of_locks_outside_of_it(lock: Lock):
    outside = replace(lock, in_tree=False)
    assert standing(outside, owner(), Tenancy(alone=True, local=True, ours=True)) is Standing.UNKNOWN


OURS = Tenancy(alone=False, local=False, ours=True)


def test_a_lock_older_than_any_build_is_stale_where_this_job_alone_writes(lock: Lock):
    assert standing(lock, owner(since_s=NOW_S - ANY_BUILD_S - 1), OURS) is Standing.STALE


def test_a_lock_not_older_than_any_build_stays_where_this_job_alone_writes(lock: Lock):
    assert standing(lock, owner(since_s=NOW_S - ANY_BUILD_S), OURS) is Standing.UNKNOWN


def test_a_lock_older_than_any_build_stays_where_others_write(lock: Lock):
    assert standing(lock, owner(since_s=NOW_S - 10 * ANY_BUILD_S), BESIDE_OTHERS) is Standing.UNKNOWN


@pytest.mark.parametrize("kind", [LockKind.HELPER, LockKind.TRITON])
def test_helpers_and_leftovers_go_only_when_nobody_else_is_there(lock: Lock, kind: LockKind):
    other = replace(lock, kind=kind)
    assert standing(other, owner(Alive.NO), ALONE) is Standing.STALE
    assert standing(other, owner(Alive.NO), BESIDE_OTHERS) is Standing.UNKNOWN
    assert standing(other, owner(Alive.NO, job="1"), BESIDE_OTHERS, yes) is Standing.UNKNOWN


def test_a_leftover_of_triton_stays_unless_its_process_is_gone(lock: Lock):
    leftover = replace(lock, kind=LockKind.TRITON)
    assert standing(leftover, owner(Alive.UNKNOWN), ALONE) is Standing.UNKNOWN
    assert standing(leftover, owner(Alive.YES), ALONE) is Standing.LIVE


# What is removed


@pytest.fixture
def vantage(tmp_path: Path) -> Vantage:
    """A container on n0 in which no process of this user runs."""
    (tmp_path / "proc").mkdir()
    return Vantage("n0", CONTAINER, os.geteuid(), 0.0, tmp_path / "proc")


def run(vantage: Vantage, tmp_path: Path, variable: str, tenancy: Tenancy, *others: User) -> LockReport:
    locks = find([cache(variable, tmp_path)], tmp_path / "no-tables")
    return clear(locks, tenancy, vantage, NOW_S, others=others, job_ended=lambda owner: owner.job == "99")


def test_stale_locks_are_removed_and_told(vantage: Vantage, tmp_path: Path):
    outer = made(tmp_path / "build/lock_module_x", f"4711\nn0\npid:[{CONTAINER}]\n5\n")
    inner = made(tmp_path / "build/module_x/build/lock")
    report = run(vantage, tmp_path, "AITER_JIT_DIR", ALONE)
    assert not outer.exists()
    assert not inner.exists()
    assert report.held == ()
    assert [judged.sentence for judged in report.removed] == [
        "removed build/lock_module_x, made 3 min ago by pid 4711 on n0: pid 4711 is gone",
        (
            "removed build/module_x/build/lock, made 3 min ago: "
            "no other run uses this tree, and no process here has it open"
        ),
    ]
    assert sorted(path.name for path in (tmp_path / "build").rglob("*")) == ["build", "module_x"]


def test_locks_that_may_be_held_stay_and_are_told(vantage: Vantage, tmp_path: Path):
    far = made(tmp_path / "build/lock_module_x", "4711\nn1\n")
    empty = made(tmp_path / "build/lock_module_y")
    report = run(vantage, tmp_path, "AITER_JIT_DIR", BESIDE_OTHERS)
    assert far.exists()
    assert empty.exists()
    assert report.removed == ()
    assert [judged.sentence for judged in report.held] == [
        (
            "pid 4711 on n1 may hold build/lock_module_x, made 3 min ago: "
            "pid 4711 is of n1, which cannot be looked at from here"
        ),
        "somebody may hold build/lock_module_y, made 3 min ago: it does not say who made it",
    ]


def living(vantage: Vantage, pid: int, opens: Path, job: str) -> None:
    process = vantage.proc / str(pid)
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to(opens)
    (process / "stat").write_text(f"{pid} (x) S 1 {'0 ' * 17} 5 0\n")
    (process / "status").write_text(f"Name:\tx\nUid:\t{os.geteuid()}\t0\t0\t0\n")
    (process / "environ").write_text(f"SLURM_JOB_ID={job}\0")


def test_a_living_holder_is_named_with_its_job_and_keeps_its_lock(vantage: Vantage, tmp_path: Path):
    held = made(tmp_path / "build/lock_module_x")
    living(vantage, 4711, held, "12")
    report = run(vantage, tmp_path, "AITER_JIT_DIR", ALONE)
    assert held.exists()
    (judged,) = report.held
    assert judged.sentence == "pid 4711 on n0 (job 12) has held build/lock_module_x for 3 min"


def registered(job: str, host: str = "n1", started_s: float = MADE_S - 60) -> User:
    return User(host, 1, 1, 1, started_s, job, "0", f"/runs/{job}")


def test_a_lock_is_attributed_to_the_run_that_was_there_and_goes_when_that_has_ended(vantage: Vantage, tmp_path: Path):
    made(tmp_path / "build/lock_module_x", "4711\nn1\n")
    report = run(vantage, tmp_path, "AITER_JIT_DIR", NOTHING_KNOWN, registered("99"), registered("12", "n2"))
    (judged,) = report.removed
    assert judged.owner.run_directory == "/runs/99"
    assert judged.sentence == (
        "removed build/lock_module_x, made 3 min ago by pid 4711 on n1 (job 99): job 99 has ended"
    )


@pytest.mark.parametrize(
    "others",
    [
        [registered("12")],
        [registered("99"), registered("12")],
        [registered("99", "n2")],
        [registered("99", started_s=MADE_S + 3600)],
    ],
    ids=["it has not ended", "another was there, too", "it was elsewhere", "it came later"],
)
def test_a_lock_stays_unless_just_the_run_that_has_ended_can_have_made_it(
    vantage: Vantage, tmp_path: Path, others: list[User]
):
    made(tmp_path / "build/lock_module_x", "4711\nn1\n")
    assert run(vantage, tmp_path, "AITER_JIT_DIR", NOTHING_KNOWN, *others).removed == ()


def test_an_unfinished_entry_of_triton_is_removed_with_all_it_holds(vantage: Vantage, tmp_path: Path):
    leftover = made_directory(tmp_path / "HASH/tmp.pid_4711_uuid")
    host = replace(vantage, pid_namespace=INITIAL_PID_NAMESPACE)
    report = run(host, tmp_path, "TRITON_CACHE_DIR", ALONE)
    assert not leftover.exists()
    assert list((tmp_path / "HASH").iterdir()) == []
    assert report.removed[0].owner.pid == 4711


@pytest.mark.parametrize("name", ["tmp.pid_", "tmp.pid_x_y"])
def test_an_unfinished_entry_that_names_no_process_stays(vantage: Vantage, tmp_path: Path, name: str):
    leftover = made_directory(tmp_path / "HASH" / name)
    host = replace(vantage, pid_namespace=INITIAL_PID_NAMESPACE)
    run(host, tmp_path, "TRITON_CACHE_DIR", ALONE)
    assert leftover.exists()


def test_a_lock_that_cannot_be_removed_is_told(vantage: Vantage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    made(tmp_path / "build/lock_module_x")
    monkeypatch.setattr(Path, "rename", refuse)
    (judged,) = run(vantage, tmp_path, "AITER_JIT_DIR", ALONE).held
    assert judged.verdict.standing is Standing.UNKNOWN
    assert judged.sentence.endswith("but it cannot be removed: Read-only file system")


def test_without_locks_no_process_is_looked_at(tmp_path: Path):
    nowhere = Vantage("n0", 1, os.geteuid(), 0.0, tmp_path / "none")
    assert clear([], ALONE, nowhere, NOW_S) == LockReport()


# What happens meanwhile


def test_a_lock_that_was_released_meanwhile_is_not_told(vantage: Vantage, tmp_path: Path):
    made(tmp_path / "build/lock_module_x")
    locks = find([cache("AITER_JIT_DIR", tmp_path)], tmp_path)
    (tmp_path / "build/lock_module_x").unlink()
    assert clear(locks, ALONE, vantage, NOW_S) == LockReport()


def test_a_lock_that_was_taken_anew_meanwhile_stays(vantage: Vantage, tmp_path: Path):
    path = made(tmp_path / "build/lock_module_x")
    locks = find([cache("AITER_JIT_DIR", tmp_path)], tmp_path)
    path.unlink()
    made(path, "1\nn1\n", NOW_S)
    report = clear(locks, ALONE, vantage, NOW_S)
    assert path.read_text() == "1\nn1\n"
    assert [judged.sentence for judged in report.held] == ["build/lock_module_x has just been taken anew"]


def test_a_lock_that_is_taken_anew_at_the_last_moment_gets_its_name_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = made(tmp_path / "lock")
    judged = path.stat()
    rename = Path.rename

    def taken_just_before(source: Path, target: Path) -> Path:
        source.unlink()
        made(source, "new", NOW_S)
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", taken_just_before)
    assert remove(path, judged) == (Removal.TAKEN, "")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_third_that_took_the_name_meanwhile_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = made(tmp_path / "lock")
    judged = path.stat()
    rename = Path.rename

    def taken_around(source: Path, target: Path) -> Path:
        source.unlink()
        made(source, "second", NOW_S)
        moved = rename(source, target)
        made(source, "third", NOW_S)
        return moved

    monkeypatch.setattr(Path, "rename", taken_around)
    assert remove(path, judged) == (Removal.TAKEN, "")
    assert path.read_text() == "third"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_was_made_anew_at_the_last_moment_gets_its_name_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = made_directory(tmp_path / "tmp.pid_1_x")
    judged = path.stat()
    rename = Path.rename
    moves = iter([True, False])

    def written_just_before(source: Path, target: Path) -> Path:
        if next(moves):
            os.utime(source, (NOW_S, NOW_S))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", written_just_before)
    assert remove(path, judged) == (Removal.TAKEN, "")
    assert [entry.name for entry in path.iterdir()] == ["half"]


def test_of_two_that_clear_at_once_one_removes_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = made(tmp_path / "lock")
    judged = path.stat()
    rename = Path.rename
    others = []

    def beaten(source: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        others.append(remove(path, judged))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", beaten)
    assert remove(path, judged) == (Removal.GONE, "")
    assert others == [(Removal.REMOVED, "")]
    assert list(tmp_path.iterdir()) == []


def test_a_clearing_that_was_killed_in_the_middle_leaves_what_the_next_one_finds(
    vantage: Vantage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    path = made(tmp_path / "build/pa_0123/lock")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KilledError):
            remove(path, path.stat())
    (left,) = (tmp_path / "build/pa_0123").iterdir()
    assert left.name.endswith(lock_removal.ASIDE_SUFFIX)
    run(vantage, tmp_path, "AITER_ROOT_DIR", ALONE)
    assert not left.exists()
