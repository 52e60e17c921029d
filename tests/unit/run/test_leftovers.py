"""Shared memory that a killed engine left: removed when nobody has it any more, and only then."""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrypoint.run.leftovers import Leftovers, remove_leftovers

PAGE = 4096


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory of its own in the machine's shared memory."""
    directory = Path("/dev/shm") / f"leftovers-{os.getpid()}"  # removed below
    directory.mkdir()
    yield directory
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()


def segment(directory: Path, name: str = "torch_1_2_3") -> Path:
    path = directory / name
    path.write_bytes(bytes(PAGE))
    return path


def a_moment_ago() -> float:
    return time.time() - 60


def test_what_nobody_has_is_removed_and_counted(shared: Path):
    segment(shared, "psm_one")
    segment(shared, "nccl-two")
    assert remove_leftovers(a_moment_ago(), shared) == Leftovers(2, 2 * PAGE)
    assert list(shared.iterdir()) == []


def test_what_a_process_has_mapped_stays(shared: Path):
    path = segment(shared)
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), PAGE)
    assert remove_leftovers(a_moment_ago(), shared) == Leftovers()
    mapped.close()
    assert remove_leftovers(a_moment_ago(), shared).files == 1


def test_what_a_process_has_open_stays(shared: Path):
    path = segment(shared)
    with path.open("rb"):
        assert remove_leftovers(a_moment_ago(), shared) == Leftovers()


def test_what_another_process_has_stays_until_it_is_killed(shared: Path):
    path = segment(shared)
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import sys; f = open({str(path)!r}); print(1, flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert remove_leftovers(a_moment_ago(), shared) == Leftovers()
        holder.kill()
    assert remove_leftovers(a_moment_ago(), shared).files == 1


def test_what_was_there_before_the_engine_stays(shared: Path):
    path = segment(shared)
    assert remove_leftovers(time.time() + 60, shared) == Leftovers()
    assert path.exists()


def test_directories_and_links_stay(shared: Path, tmp_path: Path):
    (shared / "torch_link").symlink_to(tmp_path)
    assert remove_leftovers(a_moment_ago(), shared) == Leftovers()
    assert (shared / "torch_link").is_symlink()


def test_what_no_engine_makes_stays(shared: Path):
    segment(shared, "somebody-elses")
    assert remove_leftovers(a_moment_ago(), shared) == Leftovers()


def test_a_machine_without_shared_memory_has_no_leftovers(tmp_path: Path):
    assert remove_leftovers(a_moment_ago(), tmp_path / "none") == Leftovers()
