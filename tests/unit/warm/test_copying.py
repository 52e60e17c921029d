"""One entry is copied whole, or not at all, and never over another."""

import errno
import fcntl
import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cache_trees import NOW_S, OLD_NS, age, snapshot, write

from entrypoint.plan.caches import EntryRule
from entrypoint.warm import copying, file_copy
from entrypoint.warm.copying import Changed, Copied, Copier, Failed, Kept, Outcome, Refusal
from entrypoint.warm.entries import finished
from entrypoint.warm.entry import Entry
from entrypoint.warm.file_copy import Durability

FILE, DIRECTORY = "module.so", "kernel"
SIZES = {FILE: 6000, DIRECTORY: 2004}
EVERY = pytest.mark.parametrize("name", [FILE, DIRECTORY])


class Bench:
    """Two caches and a copier from one to the other."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "source"
        self.target = directory / "target" / "cache"
        self.staging = directory / "target" / ".staging"
        self.staging.mkdir(parents=True)
        write(self.source / FILE, b"module" * 1000, 0o755)
        write(self.source / DIRECTORY / "k.json", b"json")
        write(self.source / DIRECTORY / "deep" / "k.hsaco", b"code" * 500)
        (self.source / DIRECTORY / "empty").mkdir()
        (self.source / DIRECTORY / "latest").symlink_to("deep/k.hsaco")
        age(self.source)
        self.advanced = 0
        self.meanwhile: Callable[[], object] = lambda: None
        """Happens once, while a file is copied."""
        self._listing = finished(self.source, (EntryRule("*"),), quiet_s=0, now_unix_s=NOW_S)

    def entry(self, name: str) -> Entry:
        (entry,) = (entry for entry in self._listing.entries if entry.path == name)
        return entry

    def first_file(self, name: str) -> Path:
        """The one that is copied first."""
        return self.source / next(file.path for file in self.entry(name).files if not file.link)

    def copy(self, name: str, durability: Durability = Durability.IN_MEMORY) -> Outcome:
        entry = self.entry(name)
        return Copier(self.staging, durability).copy(entry, self.source, self.target, self._advance)

    def _advance(self, count_bytes: int) -> None:
        self.advanced += count_bytes
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()

    def assert_copied(self, name: str) -> None:
        assert snapshot(self.target / name) == snapshot(self.source / name)
        self.assert_clean()

    def assert_nothing(self, name: str) -> None:
        assert not os.path.lexists(self.target / name)
        self.assert_clean()

    def assert_clean(self) -> None:
        assert list(self.staging.iterdir()) == []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def fail(monkeypatch: pytest.MonkeyPatch, name: str, number: int, *, times: int = 10**6) -> list[int]:
    """Let a call of the system fail, at first or always; return a list that grows with each call."""
    real, calls = getattr(os, name), []

    def call(*arguments: object, **named: object) -> object:
        calls.append(len(calls))
        if len(calls) <= times:
            raise OSError(number, os.strerror(number))
        return real(*arguments, **named)

    monkeypatch.setattr(os, name, call)
    return calls


# What arrives


@EVERY
@pytest.mark.parametrize("durability", Durability)
def test_an_entry_arrives_with_contents_links_modes_and_times(bench: Bench, name: str, durability: Durability):
    assert bench.copy(name, durability) == Copied()
    bench.assert_copied(name)
    assert (bench.target / name).lstat().st_mtime_ns == OLD_NS
    assert bench.advanced == SIZES[name]


def test_directories_keep_their_times_and_modes_and_stay_writable_for_their_owner(bench: Bench):
    (bench.source / DIRECTORY / "deep").chmod(0o550)
    (bench.source / DIRECTORY / "empty").chmod(0o777)
    assert bench.copy(DIRECTORY) == Copied()
    modes = [stat.S_IMODE((bench.target / DIRECTORY / name).stat().st_mode) for name in ("deep", "empty")]
    assert modes == [0o750, 0o777]
    assert (bench.target / DIRECTORY / "deep").stat().st_mtime_ns == OLD_NS


@pytest.mark.parametrize(("mode", "copied"), [(0o444, 0o644), (0o555, 0o755), (0o6755, 0o755), (0o600, 0o600)])
def test_a_file_stays_writable_for_its_owner_and_gets_no_more_rights(bench: Bench, mode: int, copied: int):
    (bench.source / FILE).chmod(mode)
    assert bench.copy(FILE) == Copied()
    assert stat.S_IMODE((bench.target / FILE).stat().st_mode) == copied


def test_a_group_that_is_handed_down_in_the_target_is_kept(bench: Bench):
    bench.staging.chmod(0o2755)
    assert bench.copy(DIRECTORY) == Copied()
    assert (bench.target / DIRECTORY / "deep").stat().st_mode & stat.S_ISGID


def test_a_copy_counts_as_read_now(bench: Bench):
    os.utime(bench.source / FILE, ns=(0, OLD_NS))
    assert bench.copy(FILE) == Copied()
    assert (bench.target / FILE).stat().st_atime_ns > OLD_NS


def test_an_empty_file_is_copied(bench: Bench):
    write(bench.source / "empty", b"")
    bench._listing = finished(bench.source, (EntryRule("*"),), quiet_s=0, now_unix_s=NOW_S)
    assert bench.copy("empty") == Copied()
    bench.assert_copied("empty")


# What is there already


@EVERY
@pytest.mark.parametrize("there", ["file", "directory", "full directory", "dangling link"])
def test_what_is_there_is_never_replaced(bench: Bench, name: str, there: str):
    place = bench.target / name
    bench.target.mkdir()
    match there:
        case "file":
            place.write_text("mine")
        case "directory":
            place.mkdir()
        case "full directory":
            write(place / "mine")
        case _:
            place.symlink_to("nowhere")
    before = snapshot(bench.target)
    assert bench.copy(name) == Kept()
    assert snapshot(bench.target) == before
    bench.assert_clean()


@EVERY
def test_of_two_that_copy_at_once_the_later_throws_its_own_away(bench: Bench, name: str):
    bench.meanwhile = lambda: write(bench.target / name / "x" if name == DIRECTORY else bench.target / name, b"first")
    assert bench.copy(name) == Kept()
    assert [told[1] for told in snapshot(bench.target).values() if told[0] == "file"] == [b"first"]
    bench.assert_clean()


def test_a_file_that_came_where_a_directory_was_to_be_is_kept(bench: Bench):
    bench.meanwhile = lambda: write(bench.target / DIRECTORY, b"first")
    assert bench.copy(DIRECTORY) == Kept()
    assert (bench.target / DIRECTORY).read_bytes() == b"first"


# File systems that lack something


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS])
def test_without_links_a_file_is_renamed_into_place(bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int):
    fail(monkeypatch, "link", number)
    assert bench.copy(FILE) == Copied()
    bench.assert_copied(FILE)


def test_without_links_what_came_meanwhile_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    fail(monkeypatch, "link", errno.EPERM)
    bench.meanwhile = lambda: write(bench.target / FILE, b"first")
    assert bench.copy(FILE) == Kept()
    assert (bench.target / FILE).read_bytes() == b"first"


def test_another_error_of_a_link_is_a_failure_not_a_reason_to_rename(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    fail(monkeypatch, "link", errno.EIO)
    assert isinstance(bench.copy(FILE), Failed)
    bench.assert_nothing(FILE)


def test_blocks_are_shared_where_the_file_system_can(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    def clone(handle: int, request: int, source: int) -> None:
        assert request == 0x40049409
        os.write(handle, os.pread(source, 1 << 20, 0))

    monkeypatch.setattr(fcntl, "ioctl", clone)
    calls = fail(monkeypatch, "copy_file_range", errno.EIO)
    assert bench.copy(DIRECTORY) == Copied()
    assert calls == []
    bench.assert_copied(DIRECTORY)
    assert bench.advanced == SIZES[DIRECTORY]


def test_a_file_system_that_shares_no_blocks_is_asked_once(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []

    def refuse(handle: int, *_: object) -> None:
        asked.append(handle)
        raise OSError(errno.EOPNOTSUPP, "")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    assert bench.copy(DIRECTORY) == Copied()
    assert len(asked) == 1


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_where_the_kernel_does_not_copy_it_is_read_and_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
):
    fail(monkeypatch, "copy_file_range", number)
    assert bench.copy(FILE) == Copied()
    bench.assert_copied(FILE)
    assert bench.advanced == SIZES[FILE]


def test_a_kernel_that_claims_to_be_done_at_once_is_not_believed(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    assert bench.copy(FILE) == Copied()
    bench.assert_copied(FILE)


def test_writes_that_take_a_part_are_continued(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    fail(monkeypatch, "copy_file_range", errno.EXDEV)
    write_all = os.write
    monkeypatch.setattr(file_copy.os, "write", lambda handle, data: write_all(handle, bytes(data[:7])))
    assert bench.copy(FILE) == Copied()
    bench.assert_copied(FILE)


# A source that does not hold still


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def rewrite(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def cut(path: Path) -> None:
    os.truncate(path, 1)


@pytest.mark.parametrize("change", [grow, rewrite, cut, Path.touch])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@EVERY
def test_a_file_that_is_written_while_it_is_copied_is_not_put_in_place(
    bench: Bench, name: str, change: Callable[[Path], None], when: str
):
    file = bench.first_file(name)
    if when == "before":
        change(file)
    else:
        bench.meanwhile = lambda: change(file)
    assert bench.copy(name) == Changed()
    bench.assert_nothing(name)


@pytest.mark.parametrize("other", ["nothing", "link", "pipe", "directory"])
@EVERY
def test_a_file_whose_name_is_another_things_now_is_neither_followed_nor_waited_for(
    bench: Bench, name: str, other: str
):
    path = bench.source / (FILE if name == FILE else f"{DIRECTORY}/deep/k.hsaco")
    path.rename(bench.source / "secret")
    match other:
        case "link":
            path.symlink_to(bench.source / "secret")
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
    age(bench.source)
    assert bench.copy(name) == Changed()
    bench.assert_nothing(name)


@pytest.mark.parametrize("below", ["", "deep", "empty"])
def test_a_directory_that_something_came_into_meanwhile_is_not_put_in_place(bench: Bench, below: str):
    bench.meanwhile = (bench.source / DIRECTORY / below / "new").touch
    assert bench.copy(DIRECTORY) == Changed()
    bench.assert_nothing(DIRECTORY)


def test_what_comes_into_another_directory_meanwhile_does_not_matter(bench: Bench):
    bench.meanwhile = (bench.source / "new").touch
    assert bench.copy(DIRECTORY) == Copied()


# Errors


@EVERY
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_source_that_cannot_be_read_fails_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, number: int
):
    real = os.open

    def open_(path: str, flags: int, *mode: int, **named: int) -> int:
        if str(path).startswith(str(bench.source)):
            raise OSError(number, os.strerror(number), path)
        return real(path, flags, *mode, **named)

    monkeypatch.setattr(os, "open", open_)
    outcome = bench.copy(name)
    assert isinstance(outcome, Failed)
    assert outcome.refusal is None
    assert os.strerror(number) in outcome.reason
    bench.assert_nothing(name)


@pytest.mark.parametrize(
    ("number", "refusal"),
    [
        (errno.ENOSPC, Refusal.FULL),
        (errno.EDQUOT, Refusal.QUOTA),
        (errno.EROFS, Refusal.READ_ONLY),
        (errno.EACCES, Refusal.FORBIDDEN),
        (errno.EIO, None),
    ],
)
@pytest.mark.parametrize("name_and_call", [*itertools.product(SIZES, ["copy_file_range", "fsync", "utime", "fchmod"])])
def test_a_target_that_takes_no_more_is_told_by_its_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name_and_call: tuple[str, str], number: int, refusal: Refusal | None
):
    name, call = name_and_call
    fail(monkeypatch, call, number)
    outcome = bench.copy(name, Durability.FLUSHED)
    assert isinstance(outcome, Failed)
    assert outcome.refusal is refusal
    bench.assert_nothing(name)


def test_a_file_server_that_reports_a_full_disk_only_at_the_end_is_heard(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    real = os.close

    def close(handle: int) -> None:
        writing = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_WRONLY
        real(handle)
        if writing:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "close", close)
    outcome = bench.copy(FILE)
    monkeypatch.undo()
    assert isinstance(outcome, Failed)
    assert outcome.refusal is Refusal.QUOTA
    bench.assert_nothing(FILE)


CALLS = ("open", "fstat", "copy_file_range", "fchmod", "utime", "fsync", "lstat")


@EVERY
@pytest.mark.parametrize("call", CALLS)
def test_a_handle_that_went_stale_is_tried_once_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, call: str
):
    fail(monkeypatch, call, errno.ESTALE, times=1)
    assert bench.copy(name, Durability.FLUSHED) == Copied()
    monkeypatch.undo()
    bench.assert_copied(name)


@pytest.mark.parametrize(("name", "call"), [(FILE, "link"), (DIRECTORY, "rename")])
def test_a_handle_that_went_stale_when_it_was_put_in_place_is_tried_once_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, call: str
):
    fail(monkeypatch, call, errno.ESTALE, times=1)
    assert bench.copy(name) == Copied()
    bench.assert_copied(name)


@EVERY
def test_a_handle_that_stays_stale_fails_after_the_second_try(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str):
    calls = fail(monkeypatch, "copy_file_range", errno.ESTALE)
    outcome = bench.copy(name)
    assert isinstance(outcome, Failed)
    assert outcome.refusal is None
    assert len(calls) == 2
    bench.assert_nothing(name)


def test_another_error_is_not_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    calls = fail(monkeypatch, "copy_file_range", errno.EIO, times=1)
    assert isinstance(bench.copy(FILE), Failed)
    assert len(calls) == 1


@EVERY
def test_whoever_watches_may_end_the_copy(bench: Bench, name: str):
    def end() -> None:
        raise KeyError

    bench.meanwhile = end
    with pytest.raises(KeyError):
        bench.copy(name)
    bench.assert_nothing(name)


# Durability


def recorded(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    calls: list[str] = []
    for name in names:
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _real=real, _name=name, **k: (calls.append(_name), _real(*a, **k))[1])
    return calls


@pytest.mark.parametrize(("name", "put", "parts"), [(FILE, "link", 1), (DIRECTORY, "rename", 5)])
def test_what_is_to_outlive_a_crash_is_on_the_disk_before_it_is_seen(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, put: str, parts: int
):
    bench.target.mkdir()
    calls = recorded(monkeypatch, "fsync", put)
    assert bench.copy(name, Durability.FLUSHED) == Copied()
    assert calls == ["fsync"] * parts + [put]


@EVERY
def test_what_can_be_made_anew_is_not_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str):
    calls = recorded(monkeypatch, "fsync")
    assert bench.copy(name) == Copied()
    assert calls == []


def test_a_file_system_that_flushes_no_directories_is_no_failure(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    fail(monkeypatch, "fsync", errno.EINVAL)
    copying.flush_directory(bench.source)
    copying.flush_directory(bench.source / "none")
