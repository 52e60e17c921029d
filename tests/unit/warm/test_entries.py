"""What of a cache is finished, by what builders leave."""

import errno
import os
import socket
import struct
import time
from pathlib import Path

import pytest
from cache_trees import NOW_S, OLD_NS, age, caches, lay_out, write
from pydantic_core import _pydantic_core

from entrypoint.plan.caches import CACHE_RULES, EntryRule
from entrypoint.warm import entries
from entrypoint.warm.entries import ABANDONED_S, Listing, finished, names

QUIET_S = 60.0
LIBRARY = struct.pack("<6s34xQ10xHH", b"\x7fELF\x02\x01", 5000, 64, 3).ljust(5000 + 3 * 64, b"x")
"""As linkers write one: at its end a table of three sections, which its header points at."""
MODULES = EntryRule("*.so", lock="build/lock_{stem}")
OPERATORS = EntryRule("build/*", holds="lib.so", lock="build/{name}/lock", leaves_out=("lock", "*.steal"))
KERNELS = EntryRule("*", leaves_out=("tmp.*", "*.lock"))
FILES = EntryRule("**/*", leaves_out=("tmp.*", "*.lock", "locks"))


def look(directory: Path, *rules: EntryRule, quiet_s: float = QUIET_S) -> Listing:
    return finished(directory, rules, quiet_s=quiet_s, now_unix_s=NOW_S)


def paths(listing: Listing) -> list[str]:
    return [entry.path for entry in listing.entries]


def set_age(path: Path, age_s: float) -> None:
    moment_ns = int((NOW_S - age_s) * 1e9)
    os.utime(path, ns=(moment_ns, moment_ns), follow_symlinks=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def kernel(place: Path) -> Path:
    """A directory that is one entry, with a file and a directory in it."""
    write(place / "kernel" / "k.json")
    write(place / "kernel" / "deep" / "k.hsaco")
    age(place)
    return place / "kernel"


def test_a_file_is_told_with_its_size_and_its_time_to_the_nanosecond(place: Path):
    write(place / "a.so", b"x" * 17)
    (entry,) = look(place, MODULES).entries
    assert (entry.path, entry.is_directory, entry.size_bytes) == ("a.so", False, 17)
    assert [(file.path, file.size_bytes, file.mtime_ns) for file in entry.files] == [("a.so", 17, OLD_NS)]


def test_a_directory_is_told_with_all_its_files(place: Path, kernel: Path):
    (entry,) = look(place, KERNELS).entries
    assert (entry.path, entry.is_directory, entry.size_bytes) == (kernel.name, True, 6000)
    assert sorted(file.path for file in entry.files) == ["kernel/deep/k.hsaco", "kernel/k.json"]
    assert [directory.path for directory in entry.directories] == ["kernel", "kernel/deep"]


def test_entries_of_every_rule_of_the_table_are_found(tmp_path: Path):
    made = lay_out(tmp_path)
    found = [
        f"{cache.place}/{entry.path}"
        for cache in caches(tmp_path)
        for entry in finished(cache.path, cache.entries, quiet_s=QUIET_S, now_unix_s=NOW_S).entries
    ]
    assert sorted(found) == sorted(made)
    assert sum(bool(rule.entries) for rule in CACHE_RULES) > 5


def test_a_directory_that_is_not_there_has_no_entries(tmp_path: Path):
    assert look(tmp_path / "none", FILES) == Listing()


def test_what_two_rules_find_is_one_entry(place: Path):
    write(place / "a.so")
    assert paths(look(place, MODULES, FILES)) == ["a.so"]


# Locks


@pytest.mark.parametrize(("lock", "left"), [("build/lock_module_a", ["build/op"]), ("build/op/lock", ["module_a.so"])])
def test_what_is_locked_is_not_finished(place: Path, lock: str, left: list[str]):
    write(place / "module_a.so")
    write(place / "build" / "op" / "lib.so")
    write(place / lock)
    age(place)
    listing = look(place, MODULES, OPERATORS)
    assert (paths(listing), listing.unfinished) == (left, 1)


def test_a_file_beside_directories_that_must_hold_something_is_no_entry(place: Path):
    write(place / "build" / "lock_3rdparty_clone")
    assert look(place, OPERATORS) == Listing()
    assert names(place, (OPERATORS,)) == frozenset()


def test_a_lock_that_is_a_dangling_link_is_a_lock(place: Path):
    write(place / "a.so")
    (place / "build").mkdir()
    (place / "build" / "lock_a").symlink_to("host-17")
    assert look(place, MODULES) == Listing(unfinished=1)


@pytest.mark.parametrize("lock", ["build/lock_module", "build/lock_module_ab", "build/module_a/lock", "lock_module_a"])
def test_a_lock_of_something_else_does_not_matter(place: Path, lock: str):
    write(place / "module_a.so")
    write(place / lock)
    assert paths(look(place, MODULES)) == ["module_a.so"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE])
def test_a_lock_that_cannot_be_looked_at_may_be_held(place: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    write(place / "a.so")
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        if path.name == "lock_a":
            raise OSError(number, os.strerror(number))
        return real(path)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert look(place, MODULES) == Listing(unfinished=1)


# Marks of the end


def test_a_directory_without_what_it_must_hold_is_not_finished(place: Path):
    write(place / "build" / "op" / "op.cpp")
    age(place)
    assert look(place, OPERATORS) == Listing(unfinished=1)


@pytest.mark.parametrize(("name", "content"), [("lib.so", b""), ("deep/lib.so", b"x"), ("lib.so.1", b"x")])
def test_what_only_looks_like_the_mark_is_none(place: Path, name: str, content: bytes):
    write(place / "build" / "op" / name, content)
    age(place)
    assert look(place, OPERATORS) == Listing(unfinished=1)


def test_a_directory_with_no_file_is_not_finished(place: Path):
    (place / "kernel" / "deep").mkdir(parents=True)
    age(place)
    assert look(place, KERNELS) == Listing(unfinished=1)


@pytest.mark.parametrize("keeps_bytes", [0, 6, 61, 62, 4096, -1])
@pytest.mark.parametrize("path", ["a.so", "build/op/lib.so", "build/op/deep/b.so"])
def test_a_library_that_was_cut_off_is_not_finished_however_quiet_it_is(place: Path, path: str, keeps_bytes: int):
    write(place / "build" / "op" / "lib.so", LIBRARY)
    write(place / path, LIBRARY[:keeps_bytes])
    age(place)
    listing = look(place, MODULES, OPERATORS)
    assert listing.unfinished == 1


def test_a_whole_library_and_what_is_none_are_finished(place: Path):
    write(place / "a.so", LIBRARY)
    write(place / "b.so", b"no library")
    write(place / "d.so", Path(_pydantic_core.__file__).read_bytes())
    write(place / "c.so", b"\x7fELF\x01\x01" + b"\xff" * 100)
    assert paths(look(place, MODULES)) == ["a.so", "b.so", "c.so", "d.so"]


def test_a_library_that_cannot_be_read_is_not_finished(place: Path, monkeypatch: pytest.MonkeyPatch):
    write(place / "a.so")

    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    assert look(place, MODULES) == Listing(unfinished=1)


# Temporaries and other names that are left out


@pytest.mark.parametrize("below", ["", "deep/"])
@pytest.mark.parametrize("rule", [KERNELS, EntryRule("*")])
def test_a_directory_in_which_somebody_just_writes_is_not_finished(
    place: Path, kernel: Path, below: str, rule: EntryRule
):
    temporary = kernel / f"{below}tmp.pid_17_ab"
    temporary.mkdir()
    age(place)
    set_age(temporary, ABANDONED_S - 1)
    assert look(place, rule) == Listing(unfinished=1)


def test_a_temporary_of_somebody_long_dead_is_left_out_of_the_copy(place: Path, kernel: Path):
    write(kernel / "tmp.pid_17_ab" / "k.json")
    age(place)
    set_age(kernel / "tmp.pid_17_ab", ABANDONED_S)
    (entry,) = look(place, KERNELS).entries
    assert sorted(file.path for file in entry.files) == ["kernel/deep/k.hsaco", "kernel/k.json"]


@pytest.mark.parametrize("name", ["tmp_pid_17", "xtmp.pid_17", "tmp.json.d"])
def test_a_name_that_only_resembles_a_temporary_holds_nothing_up(place: Path, kernel: Path, name: str):
    write(kernel / name)
    age(place)
    assert paths(look(place, KERNELS)) == ["kernel"]


@pytest.mark.parametrize("name", ["tmp.x", "a.lock", "tmp.pid_1_2"])
def test_names_that_are_left_out_are_no_entries(place: Path, name: str):
    write(place / name)
    assert look(place, KERNELS) == Listing()
    assert look(place, FILES) == Listing()


def test_names_that_are_left_out_are_not_in_an_entry(place: Path, kernel: Path):
    write(kernel / "deep" / "x.lock")
    age(place)
    set_age(kernel / "deep" / "x.lock", 0)
    (entry,) = look(place, KERNELS).entries
    assert len(entry.files) == 2


def test_directories_that_are_left_out_are_not_even_read(place: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("locks/a", "a.lock/a", "b/locks/a", "b/c/a"):
        write(place / name)
    read: list[str] = []
    real = os.scandir

    def scandir(path: str) -> object:
        read.append(os.path.relpath(path, place))
        return real(path)

    monkeypatch.setattr(entries.os, "scandir", scandir)
    assert paths(look(place, FILES)) == ["b/c/a"]
    assert sorted(read) == [".", "b", "b/c"]


# Silence


@pytest.mark.parametrize("age_s", [0.0, QUIET_S - 1, -QUIET_S + 1])
def test_what_was_just_written_is_not_finished(place: Path, age_s: float):
    set_age(write(place / "a.so"), age_s)
    assert look(place, MODULES) == Listing(unfinished=1)


@pytest.mark.parametrize("age_s", [QUIET_S, 1e8, -QUIET_S, -1e8])
def test_what_is_quiet_is_finished_and_a_clock_that_is_far_ahead_tells_nothing(place: Path, age_s: float):
    set_age(write(place / "a.so"), age_s)
    assert paths(look(place, MODULES)) == ["a.so"]


@pytest.mark.parametrize("part", ["k.json", "deep/k.hsaco", "deep", "."])
def test_one_part_that_was_just_written_makes_a_directory_unfinished(place: Path, kernel: Path, part: str):
    set_age(kernel / part, 1)
    assert look(place, KERNELS) == Listing(unfinished=1)
    assert paths(look(place, KERNELS, quiet_s=1)) == ["kernel"]


# Links, and what is no file


@pytest.mark.parametrize("link", ["k.json", "deep/k.hsaco", "deep/gone", "./deep", "."])
def test_a_link_within_an_entry_is_kept_as_it_is(place: Path, kernel: Path, link: str):
    (kernel / "link").symlink_to(link)
    age(place)
    (entry,) = look(place, KERNELS).entries
    kept = [file.link for file in entry.files if file.link]
    assert kept == [os.readlink(kernel / "link")]  # noqa: PTH115  # as written


def test_a_link_may_go_up_as_far_as_its_entry(place: Path, kernel: Path):
    (kernel / "deep" / "link").symlink_to("../k.json")
    age(place)
    assert paths(look(place, KERNELS)) == ["kernel"]


@pytest.mark.parametrize("link", ["/etc/passwd", "../other", "..", "../../x", "deep/../../x", "deep/../k.json"])
def test_an_entry_with_a_link_that_leads_or_might_lead_out_of_it_is_never_copied(place: Path, kernel: Path, link: str):
    (kernel / "link").symlink_to(link)
    age(place)
    assert look(place, KERNELS) == Listing(unfit=1)


def test_an_entry_that_is_a_link_is_never_copied_nor_followed(place: Path, tmp_path: Path):
    write(tmp_path / "outside" / "a.so")
    write(place / "b.so")
    (place / "a.so").symlink_to(tmp_path / "outside" / "a.so")
    (place / "out").symlink_to(tmp_path / "outside")
    age(place)
    assert paths(look(place, MODULES)) == ["b.so"]
    listing = look(place, FILES)
    assert (paths(listing), listing.unfit) == (["b.so"], 2)
    assert paths(look(place, EntryRule("out/*.so"))) == []


def test_pipes_and_sockets_are_never_copied(place: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch):
    os.mkfifo(place / "pipe.so")
    os.mkfifo(kernel / "pipe")
    monkeypatch.chdir(kernel)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    age(place)
    listing = look(place, KERNELS)
    assert listing.unfit == 1
    (entry,) = listing.entries
    assert sorted(file.path for file in entry.files) == ["kernel/deep/k.hsaco", "kernel/k.json"]


# What vanishes


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("part", ["kernel", "kernel/deep"])
def test_what_vanishes_while_it_is_looked_at_is_not_finished_and_the_rest_is(
    place: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch, part: str, number: int
):
    write(place / "other" / "k.json")
    age(place)
    real = os.scandir

    def scandir(path: str) -> object:
        if os.path.normpath(path) == str(place / part):
            raise OSError(number, os.strerror(number))
        return real(path)

    assert kernel.is_dir()
    monkeypatch.setattr(entries.os, "scandir", scandir)
    listing = look(place, KERNELS)
    assert (paths(listing), listing.unfinished) == (["other"], 1)
    assert look(place, EntryRule("kernel/**/*")).unfinished == 0


# Names alone


def test_names_are_those_of_entries_finished_or_not(place: Path):
    write(place / "a.so")
    write(place / "b.so")
    write(place / "build" / "lock_b")
    write(place / "c.txt")
    assert names(place, (MODULES,)) == {"a.so", "b.so"}


def test_known_entries_are_counted_and_not_looked_at(place: Path, monkeypatch: pytest.MonkeyPatch):
    write(place / "a.so")
    write(place / "b.so")
    looked: list[str] = []
    real = entries._entry

    def entry(directory: Path, rule: EntryRule, path: str, *rest: object) -> object:
        looked.append(path)
        return real(directory, rule, path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(entries, "_entry", entry)
    listing = finished(place, (MODULES,), quiet_s=QUIET_S, now_unix_s=NOW_S, known={"a.so", "gone.so"})
    assert (paths(listing), listing.known, looked) == (["b.so"], 1, ["b.so"])


def test_five_thousand_files_take_no_time(tmp_path: Path):
    for number in range(5000):
        directory = tmp_path / str(number % 100)
        directory.mkdir(exist_ok=True)
        (directory / str(number)).touch()
    age(tmp_path)
    begin_s = time.perf_counter()
    assert len(look(tmp_path, FILES).entries) == 5000
    assert time.perf_counter() - begin_s < 2  # of which it takes a fortieth
