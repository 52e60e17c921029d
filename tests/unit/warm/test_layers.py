"""Trees are begun, filled and added to; what is there stays as it is."""

import errno
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cache_trees import MAKER, NOW_S, OLD_NS, age, assert_nothing_torn, caches, files, lay_out, manner, snapshot, write

from entrypoint.warm import staging, transfer
from entrypoint.warm.copy_report import CopyReport, VariableReport
from entrypoint.warm.copying import Refusal
from entrypoint.warm.layers import MARKER, begin_shared, publish, seed
from entrypoint.warm.transfer import Manner, default_workers

Layer = Callable[..., CopyReport]
EITHER = pytest.mark.parametrize("copy", [seed, publish])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "root" / "sglang-1" / "gfx942" / "kimi"


def run(copy: Layer, source: Path, target: Path, how: Manner | None = None) -> CopyReport:
    return copy(caches(target), source, target, how or manner())


def begin(image: Path, shared: Path, how: Manner | None = None) -> CopyReport:
    places = {cache.place: image / cache.place for cache in caches(image) if cache.place}
    return begin_shared(caches(shared), places, shared, how or manner())


def of(report: CopyReport, variable: str) -> VariableReport:
    return next(told for told in report.variables if told.variable == variable)


def fail(monkeypatch: pytest.MonkeyPatch, name: str, number: int, *, after: int = 0) -> None:
    """Let a call of the system fail from then on."""
    real, calls = getattr(os, name), []

    def call(*arguments: object, **named: object) -> object:
        calls.append(name)
        if len(calls) > after:
            raise OSError(number, os.strerror(number))
        return real(*arguments, **named)

    monkeypatch.setattr(os, name, call)


# Seeding and publishing


@EITHER
def test_a_tree_gets_every_finished_entry_that_it_lacks(source: Path, target: Path, copy: Layer):
    made = lay_out(source)
    report = run(copy, source, target)
    assert report.is_complete
    assert report.copied == len(made)
    assert files(target) == files(source)
    assert not (target / ".staging").exists()


@EITHER
def test_what_a_tree_has_stays_as_it_is(source: Path, target: Path, copy: Layer):
    lay_out(source, range(4))
    lay_out(target, range(2, 6))
    write(target / "aiter/jit/module_2.so", b"mine")
    write(target / "triton/KERNEL3/more", b"mine")
    before = files(target)
    report = run(copy, source, target)
    after = files(target)
    assert {path: after[path] for path in before} == before
    assert report.copied == 12
    assert (of(report, "AITER_JIT_DIR").copied, of(report, "AITER_JIT_DIR").kept) == (2, 2)


@EITHER
def test_a_second_time_there_is_nothing_to_do_and_nothing_is_written(source: Path, target: Path, copy: Layer):
    made = lay_out(source)
    run(copy, source, target)
    before = target.stat().st_mtime_ns
    report = run(copy, source, target)
    assert (report.copied, report.copied_bytes) == (0, 0)
    assert sum(variable.kept for variable in report.variables) == len(made)
    assert target.stat().st_mtime_ns == before


@EITHER
def test_bytes_and_files_are_told_by_variable(source: Path, target: Path, copy: Layer):
    write(source / "aiter/root/build/op/lib.so", b"x" * 100)
    write(source / "aiter/root/build/op/op.cpp", b"x" * 11)
    write(source / "inductor/ab/c.py", b"x" * 5)
    age(source)
    report = run(copy, source, target)
    assert of(report, "AITER_ROOT_DIR") == VariableReport("AITER_ROOT_DIR", 1, 111, 2)
    assert of(report, "TORCHINDUCTOR_CACHE_DIR") == VariableReport("TORCHINDUCTOR_CACHE_DIR", 1, 5, 1)
    assert report.copied_bytes == 116


@EITHER
def test_caches_that_keep_nothing_are_passed_over(source: Path, target: Path, copy: Layer):
    for place in ("xdg", "hf_modules", "miopen/db"):
        write(source / place / "file")
    age(source)
    report = run(copy, source, target)
    assert report.copied == 0
    assert not target.exists()
    assert "XDG_CACHE_HOME" not in {told.variable for told in report.variables}


def test_what_is_being_built_is_not_published_and_counted(source: Path, target: Path):
    lay_out(source, range(1))
    (source / "aiter/jit/build").mkdir()
    write(source / "aiter/jit/build/lock_module_0")
    (source / "triton/KERNEL0/tmp.pid_1_ab").mkdir()
    os.mkfifo(source / "inductor/0/pipe")
    report = run(publish, source, target)
    assert (of(report, "AITER_JIT_DIR").unfinished, of(report, "TRITON_CACHE_DIR").unfinished) == (1, 1)
    assert of(report, "TORCHINDUCTOR_CACHE_DIR").unfit == 1
    assert report.copied == 4
    assert report.is_complete


def test_what_changes_while_it_is_published_is_counted_as_unfinished(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
):
    module = write(source / "aiter/jit/a.so")
    real = transfer.Copier.copy

    def copy(*arguments: object) -> object:
        os.utime(module)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(transfer.Copier, "copy", copy)
    assert of(run(publish, source, target), "AITER_JIT_DIR").unfinished == 1
    assert files(target) == {}


@EITHER
def test_an_entry_that_cannot_be_copied_is_named_and_the_others_are(
    source: Path, target: Path, copy: Layer, monkeypatch: pytest.MonkeyPatch
):
    lay_out(source, range(2))
    fail(monkeypatch, "link", errno.EIO)
    report = run(copy, source, target)
    assert not report.is_complete
    assert report.stopped is None
    assert {(failure.variable, failure.path) for failure in report.failures} >= {("AITER_JIT_DIR", "module_0.so")}
    assert all(os.strerror(errno.EIO) in failure.reason for failure in report.failures)
    assert (of(report, "AITER_JIT_DIR").failed, of(report, "TRITON_CACHE_DIR").copied) == (2, 2)


@EITHER
@pytest.mark.parametrize(
    ("call", "nth"), [("open", 60), ("mkdir", 1), ("mkdir", 5), ("copy_file_range", 5), ("link", 5), ("rename", 5)]
)
def test_handles_that_went_stale_once_cost_no_entry(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch, *, copy: Layer, call: str, nth: int
):
    made = lay_out(source)
    real, calls = getattr(os, call), []

    def stale_once(*arguments: object, **named: object) -> object:
        calls.append(call)
        if len(calls) == nth:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, stale_once)
    report = run(copy, source, target)
    assert len(calls) > nth
    assert report.is_complete
    assert report.copied == len(made)
    assert files(target) == files(source)


@EITHER
def test_handles_that_stay_stale_are_told_by_entry_and_nothing_half_is_seen(
    source: Path, target: Path, copy: Layer, monkeypatch: pytest.MonkeyPatch
):
    made = lay_out(source)
    fail(monkeypatch, "copy_file_range", errno.ESTALE)
    report = run(copy, source, target)
    assert report.stopped is None
    # What consists of nothing needs no copy of a content.
    assert len(report.failures) == len(made) - report.copied >= len(made) - 1
    assert all(os.strerror(errno.ESTALE) in failure.reason for failure in report.failures)
    assert assert_nothing_torn(target, [source], made) == report.copied
    assert not (target / ".staging").exists()


def test_what_was_locked_is_published_once_it_is_not(source: Path, target: Path):
    lay_out(source, range(1))
    lock = write(source / "aiter/jit/build/lock_module_0")
    assert of(run(publish, source, target), "AITER_JIT_DIR").copied == 0
    lock.unlink()
    assert of(run(publish, source, target), "AITER_JIT_DIR").copied == 1


# Refusals


@EITHER
@pytest.mark.parametrize(
    ("number", "refusal", "words"),
    [
        (errno.ENOSPC, Refusal.FULL, "a file system that is full"),
        (errno.EDQUOT, Refusal.QUOTA, "the quota on"),
        (errno.EROFS, Refusal.READ_ONLY, "a read-only file system"),
        (errno.EACCES, Refusal.FORBIDDEN, "may not write in"),
    ],
)
def test_a_tree_that_takes_no_more_ends_it_with_what_was_done(
    source: Path,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    copy: Layer,
    number: int,
    refusal: Refusal,
    words: str,
):
    made = lay_out(source)
    fail(monkeypatch, "copy_file_range", number, after=20)
    report = run(copy, source, target, manner(workers=1))
    monkeypatch.undo()
    assert report.stopped is not None
    assert (report.stopped.refusal, len(report.failures)) == (refusal, 1)
    assert words in report.stopped.reason
    assert str(target) in report.stopped.reason
    assert report.is_read_only is (refusal in (Refusal.READ_ONLY, Refusal.FORBIDDEN))
    assert sum(variable.left for variable in report.variables) == len(made) - report.copied - 1
    assert assert_nothing_torn(target, [source], made) == report.copied > 0
    assert not (target / ".staging").exists()


@EITHER
@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_tree_that_may_not_be_written_at_all_is_told_in_the_report(
    source: Path, target: Path, copy: Layer, monkeypatch: pytest.MonkeyPatch, number: int
):
    lay_out(source)
    fail(monkeypatch, "mkdir", number)
    report = run(copy, source, target)
    assert report.is_read_only
    assert (report.copied, report.failures) == (0, ())


@EITHER
def test_a_tree_that_may_not_be_written_and_lacks_nothing_is_complete(
    source: Path, target: Path, copy: Layer, monkeypatch: pytest.MonkeyPatch
):
    lay_out(source)
    run(copy, source, target)
    for call in ("mkdir", "open", "rename"):
        fail(monkeypatch, call, errno.EROFS)
    report = run(copy, source, target)
    assert report.is_complete
    assert not report.is_read_only


def test_any_other_error_of_the_tree_is_told_in_the_systems_words(source: Path, target: Path):
    lay_out(source)
    target.parent.mkdir(parents=True)
    target.touch()
    report = run(publish, source, target)
    assert report.stopped is not None
    assert report.stopped.refusal is None
    assert os.strerror(errno.ENOTDIR) in report.stopped.reason


# Progress, and an end before the end


@EITHER
@pytest.mark.parametrize("workers", [1, 8])
def test_progress_grows_to_the_whole(source: Path, target: Path, copy: Layer, workers: int):
    lay_out(source)
    told: list[tuple[int, int]] = []
    how = replace(manner(workers=workers), on_progress=lambda done, total: told.append((done, total)))
    report = run(copy, source, target, how)
    done = [bytes_ for bytes_, _ in told]
    assert done == sorted(done)
    assert {total for _, total in told} == {report.copied_bytes}
    assert done[-1] == report.copied_bytes


def test_progress_reaches_the_whole_though_something_fails_and_something_is_tried_twice(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
):
    lay_out(source, range(3))
    write(target / "triton/KERNEL1/x")
    fail(monkeypatch, "link", errno.ESTALE)
    told: list[tuple[int, int]] = []
    how = replace(manner(), on_progress=lambda done, total: told.append((done, total)))
    assert run(seed, source, target, how).failures
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1]


def test_a_transfer_that_is_cancelled_leaves_the_rest(source: Path, target: Path):
    made = lay_out(source)
    cancelled = threading.Event()
    how = replace(
        manner(workers=1), cancelled=cancelled, on_progress=lambda done, _: cancelled.set() if done > 60_000 else None
    )
    report = run(publish, source, target, how)
    assert report.stopped is not None
    assert report.stopped.refusal is None
    assert 0 < report.copied < len(made)
    assert assert_nothing_torn(target, [source], made) == report.copied
    assert not (target / ".staging").exists()


def test_a_defect_of_the_one_who_watches_is_raised_where_the_copy_was_asked_for(source: Path, target: Path):
    lay_out(source)

    def break_(_done: int, _total: int) -> None:
        raise KeyError("watcher")

    with pytest.raises(KeyError, match="watcher"):
        run(seed, source, target, replace(manner(), on_progress=break_))
    assert not (target / ".staging").exists()


def test_there_are_some_threads_but_not_many():
    assert 4 <= default_workers() <= 8


def test_leftovers_of_the_dead_go_even_where_there_is_nothing_to_copy(source: Path, target: Path):
    left = write(target / ".staging" / "other-1-2-3-abcdef" / "half.so").parent
    os.utime(left, (NOW_S - staging.FORGOTTEN_S - 1,) * 2)
    run(publish, source, target)
    assert not left.exists()


# Durability


def test_what_is_published_is_flushed_up_to_the_name_of_the_tree(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
):
    write(source / "aiter/jit/a.so")
    age(source)
    flushed: list[Path] = []
    monkeypatch.setattr(transfer, "flush_directory", flushed.append)
    run(publish, source, target)
    assert flushed == [target / "aiter" / "jit", target / "aiter", target, target.parent]


def test_what_is_seeded_is_not_flushed(source: Path, target: Path, monkeypatch: pytest.MonkeyPatch):
    lay_out(source)
    fail(monkeypatch, "fsync", errno.EIO)
    assert run(seed, source, target).is_complete


# Beginning


def test_a_shared_tree_begins_with_what_the_image_has_and_says_so(source: Path, target: Path):
    made = lay_out(source)
    report = begin(source, target)
    assert report.is_complete
    assert report.copied == len(made)
    assert files(target) == files(source)
    marker = json.loads((target / MARKER).read_text())
    assert (marker["entries"], marker["host"], marker["seeded_unix_s"]) == (len(made), "n0", NOW_S)
    assert marker["from"]["triton"] == str(source / "triton")
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_modules_may_come_from_anywhere_in_the_image(tmp_path: Path, target: Path):
    modules = tmp_path / "site-packages" / "aiter" / "jit"
    write(modules / "module_a.so")
    write(modules / "core.py")
    report = begin_shared(caches(target), {"aiter/jit": modules}, target, manner())
    assert report.copied == 1
    assert set(files(target)) == {"aiter/jit/module_a.so"}


def test_a_shared_tree_has_the_rights_of_any_directory(source: Path, target: Path):
    lay_out(source, range(1))
    begin(source, target)
    (target.parent / "any").mkdir()
    assert target.stat().st_mode == (target.parent / "any").stat().st_mode


def test_an_image_that_has_nothing_begins_an_empty_tree(source: Path, target: Path):
    assert begin(source, target).is_complete
    assert list(target.iterdir()) == [target / MARKER]


def test_a_tree_that_is_there_gets_what_it_lacks_and_keeps_the_rest(source: Path, target: Path):
    lay_out(source, range(3))
    begin(source, target)
    marker = (target / MARKER).read_text()
    write(target / "aiter/jit/module_0.so", b"mine")
    lay_out(source, range(3, 5))
    report = begin(source, target)
    assert report.copied == 12
    assert (target / "aiter/jit/module_0.so").read_bytes() == b"mine"
    assert (target / MARKER).read_text() == marker


def test_a_tree_that_was_published_to_before_it_was_begun_is_marked_late(source: Path, target: Path):
    lay_out(source, range(1))
    run(publish, source, target)
    begin(source, target)
    assert json.loads((target / MARKER).read_text())["entries"] == 0
    assert not (target / ".staging").exists()


def test_of_two_that_begin_at_once_the_later_adds_what_the_first_lacks(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
):
    made = lay_out(source, range(2))
    real = Path.rename

    def rename(path: Path, other: Path) -> Path:
        if other == target:
            write(target / "aiter/jit/module_0.so", b"first")
            write(target / MARKER, b"{}")
        return real(path, other)

    monkeypatch.setattr(Path, "rename", rename)
    report = begin(source, target)
    assert report.copied == len(made) - 1
    assert (target / "aiter/jit/module_0.so").read_bytes() == b"first"
    assert (target / MARKER).read_bytes() == b"{}"
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_tree_that_does_not_fit_is_not_begun(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    lay_out(source)
    fail(monkeypatch, "copy_file_range", number, after=50)
    report = begin(source, target)
    assert report.stopped is not None
    assert str(target) in report.stopped.reason
    assert ".staging" not in report.stopped.reason
    assert report.copied == 0
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "read_only"), [(errno.EROFS, True), (errno.EACCES, True), (errno.ENOSPC, False), (errno.ESTALE, False)]
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_tree_that_cannot_be_begun_is_told_in_the_report(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch, *, number: int, read_only: bool, exists: bool
):
    lay_out(source)
    if exists:
        target.mkdir(parents=True)
    fail(monkeypatch, "mkdir", number)
    report = begin(source, target)
    assert report.stopped is not None
    assert report.is_read_only is read_only


def test_the_marker_is_complete_before_the_tree_is_seen(source: Path, target: Path, monkeypatch: pytest.MonkeyPatch):
    lay_out(source, range(1))
    seen: list[object] = []
    real = Path.rename

    def rename(path: Path, other: Path) -> Path:
        if other == target:
            seen.append(json.loads((path / MARKER).read_text())["entries"])
            assert not (path / ".staging").exists()
        return real(path, other)

    monkeypatch.setattr(Path, "rename", rename)
    begin(source, target)
    assert seen == [6]


def test_the_layers_flow_into_each_other(tmp_path: Path, target: Path):
    image, local, other = tmp_path / "image", tmp_path / "local", tmp_path / "other"
    lay_out(image, range(2))
    begin(image, target)
    run(seed, target, local, Manner(NOW_S, maker=MAKER))
    lay_out(local, range(2, 3))
    run(publish, local, target)
    run(seed, target, other, Manner(NOW_S, maker=MAKER))
    lay_out(image, range(2, 3))
    assert files(other) == files(image)
    assert {told[3] for told in files(other).values() if told[0] == "file"} == {OLD_NS}
    assert MARKER not in snapshot(other)
