"""Trees of caches are shared by processes that race, are killed, and find disks full or not to be written."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cache_trees import assert_nothing_torn, files, lay_out, snapshot, visible, write

pytestmark = pytest.mark.process
DRIVER = Path(__file__).with_name("cache_driver.py")
TESTS = DRIVER.parent.parent
IN_MEMORY = Path("/dev/shm")
SEED = 5
Start = Callable[..., "Copy"]


def command(*words: object) -> list[str]:
    return [sys.executable, str(DRIVER), *map(str, words)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent)))}


class Copy:
    """A process that copies when it is told to."""

    def __init__(self, how: str, source: Path, target: Path, *more: int) -> None:
        self.process = subprocess.Popen(
            command(how, source, target, *more),
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def is_ready(self) -> bool:
        """Wait for its first line; it says no more until it is told to go."""
        assert self.process.stdout is not None
        return self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def report(self) -> dict[str, Any]:
        told, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        found: dict[str, Any] = json.loads(told)
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a copy, which waits to be told to go."""
    started: list[Copy] = []

    def begin(how: str, source: Path, target: Path, *more: int) -> Copy:
        copy = Copy(how, source, target, *more)
        started.append(copy)
        return copy

    yield begin
    for copy in started:
        copy.end()


def run(start: Start, how: str, source: Path, target: Path) -> dict[str, Any]:
    (report,) = race(start, how, [source], target)
    return report


def race(start: Start, how: str, sources: Sequence[Path], target: Path) -> list[dict[str, Any]]:
    """Let one process for each source copy to one target, all at once; return their reports."""
    copies = [start(how, source, target) for source in sources]
    assert all(copy.is_ready() for copy in copies)
    for copy in copies:
        copy.go()
    return [copy.report() for copy in copies]


def assert_nothing_left(target: Path) -> None:
    assert not (target / ".staging").exists()
    assert list(target.parent.iterdir()) == [target]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "root" / "gfx942" / "any"


# Kills


@pytest.mark.parametrize("how", ["publish", "begin"])
def test_a_copy_that_is_killed_at_any_step_leaves_nothing_torn_and_the_next_one_completes_it(tmp_path: Path, how: str):
    """Begun trees are seen as a whole or not at all."""
    # Hundreds of times all entries: on a disk this takes minutes.
    within = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=within) as directory:
        done = subprocess.run(
            command("every-step", how, directory),
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 600


@pytest.mark.parametrize("progress", random.Random(SEED).sample(range(1, 400), 6))
def test_a_copy_by_several_threads_that_is_killed_in_the_middle_leaves_nothing_torn(
    tmp_path: Path, target: Path, start: Start, progress: int
):
    source = tmp_path / "source"
    made = lay_out(source, range(50))
    copy = start("publish", source, target, progress)
    assert copy.is_ready()
    copy.go()
    assert copy.process.wait() == -signal.SIGKILL
    there = assert_nothing_torn(target, [source], made)
    assert there < len(made)
    report = run(start, "publish", source, target)
    assert report["complete"]
    assert report["copied"] == len(made) - there
    assert files(target) == files(source)
    assert_nothing_left(target)


# Races


@pytest.mark.parametrize("count", [2, 8])
def test_several_that_publish_to_one_tree_at_once_leave_all_of_everybodys(
    tmp_path: Path, target: Path, start: Start, count: int
):
    """Where two have an entry of the same name, one of them is there as a whole."""
    sources = [tmp_path / f"source{number}" for number in range(count)]
    made = {
        entry
        for number, source in enumerate(sources)
        for entry in lay_out(source, range(number * 5, number * 5 + 12), salt=str(number))
    }
    reports = race(start, "publish", sources, target)
    assert all(report["complete"] for report in reports), reports
    assert assert_nothing_torn(target, sources, made) == len(made)
    assert sum(report["copied"] for report in reports) == len(made)
    assert_nothing_left(target)


@pytest.mark.parametrize("count", [2, 8])
def test_of_several_that_begin_a_tree_at_once_one_does_and_the_others_find_it(
    tmp_path: Path, target: Path, start: Start, count: int
):
    image = tmp_path / "image"
    made = lay_out(image, range(20))
    reports = race(start, "begin", [image] * count, target)
    assert all(report["complete"] for report in reports), reports
    assert sum(report["copied"] for report in reports) == len(made)
    assert files(target) == files(image)
    assert json.loads((target / "seeded.json").read_text())["entries"] == len(made)
    assert_nothing_left(target)


def test_images_that_differ_begin_one_tree_with_all_that_they_have(tmp_path: Path, target: Path, start: Start):
    images = [tmp_path / f"image{number}" for number in range(4)]
    made = {entry for number, image in enumerate(images) for entry in lay_out(image, range(number, number + 9))}
    assert all(report["complete"] for report in race(start, "begin", images, target))
    assert assert_nothing_torn(target, images, made) == len(made)
    assert_nothing_left(target)


def test_a_reader_never_sees_an_entry_torn_or_gone_again(tmp_path: Path, target: Path, start: Start):
    source = tmp_path / "source"
    made = lay_out(source, range(60))
    whole = {entry: snapshot(source / entry) for entry in made}
    seen: set[str] = set()
    wrong: list[str] = []
    looks = 0
    over = threading.Event()

    def read() -> None:
        nonlocal looks
        while not over.is_set():
            looks += 1
            there = {entry for entry in made if os.path.lexists(target / entry)}
            wrong.extend(entry for entry in there if snapshot(target / entry) != whole[entry])
            wrong.extend(seen - there)
            seen.update(there)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        reports = race(start, "publish", [source] * 3, target)
    finally:
        over.set()
        reader.join()
    assert all(report["complete"] for report in reports)
    assert wrong == []
    assert looks > 1


# File systems


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a file system in memory, with options; skips where that is not allowed."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        place = tmp_path / f"mounted{len(mounted)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip("file systems may not be mounted here")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("how", ["publish", "seed"])
@pytest.mark.parametrize("options", ["size=600k", "size=8m,nr_inodes=60"])
def test_on_a_full_disk_nothing_half_is_seen_and_what_fitted_stays(
    *, tmp_path: Path, mount: Callable[[str], Path], start: Start, how: str, options: str
):
    source, target = tmp_path / "source", mount(options) / "gfx942" / "any"
    made = lay_out(source, range(60))
    report = run(start, how, source, target)
    assert not report["complete"]
    assert "full" in report["stopped"]
    assert assert_nothing_torn(target, [source], made) == report["copied"]
    assert 0 < report["copied"] < len(made)
    assert_nothing_left(target)


def test_a_tree_that_does_not_fit_is_not_begun(tmp_path: Path, mount: Callable[[str], Path], start: Start):
    source, disk = tmp_path / "source", mount("size=600k")
    lay_out(source, range(60))
    report = run(start, "begin", source, disk / "gfx942" / "any")
    assert "full" in report["stopped"]
    assert report["copied"] == 0
    assert list((disk / "gfx942").iterdir()) == []
    assert sum(file.stat().st_blocks for file in disk.rglob("*") if file.is_file()) == 0


def test_a_disk_on_which_all_fits_is_not_called_full(tmp_path: Path, mount: Callable[[str], Path], start: Start):
    source, target = tmp_path / "source", mount("size=8m") / "gfx942" / "any"
    lay_out(source, range(60))
    assert run(start, "publish", source, target)["complete"]
    assert files(target) == files(source)


@pytest.mark.parametrize("how", ["publish", "begin"])
@pytest.mark.parametrize("there", [False, True])
def test_a_tree_that_may_not_be_written_is_told_and_stays_as_it_is(
    *, tmp_path: Path, mount: Callable[[str], Path], start: Start, how: str, there: bool
):
    source, disk = tmp_path / "source", mount("size=8m")
    target = disk / "gfx942" / "any"
    lay_out(source, range(2))
    if there:
        write(target / "aiter/jit/module_0.so", b"the operator's")
    before = visible(disk)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    report = run(start, how, source, target)
    assert report["read_only"]
    assert report["copied"] == 0
    assert report["failures"] == []
    assert "read-only" in report["stopped"]
    assert visible(disk) == before


@pytest.mark.parametrize("how", ["publish", "begin"])
def test_a_read_only_tree_that_lacks_nothing_is_complete(
    tmp_path: Path, mount: Callable[[str], Path], start: Start, how: str
):
    source, disk = tmp_path / "source", mount("size=8m")
    target = disk / "gfx942" / "any"
    lay_out(source, range(2))
    run(start, "begin", source, target)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    report = run(start, how, source, target)
    assert report["complete"]
    assert not report["read_only"]


def test_a_tree_on_two_file_systems_says_which_entries_it_could_not_take(
    tmp_path: Path, mount: Callable[[str], Path], start: Start
):
    source, target = tmp_path / "source", mount("size=8m")
    lay_out(source, range(2))
    (target / "triton").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(target / "triton")], check=True)
    report = run(start, "publish", source, target)
    subprocess.run(["umount", str(target / "triton")], check=True)
    assert report["copied"] == 10
    assert [os.strerror(18) in reason for reason in report["failures"]] == [True, True]
