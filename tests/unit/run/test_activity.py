import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import wait_for

from entrypoint.run.activity import PROCESSOR_TICKS_THAT_COUNT, READ_BYTES_THAT_COUNT, Activity, look
from entrypoint.run.warden import descendants

IDLE = "import sys; print(flush=True); sys.stdin.read()"
BUSY = """
import sys, threading
print(flush=True)
threading.Thread(target=sys.stdin.read).start()
while threading.active_count() > 1: pass
"""
READING = "import sys; open('/dev/zero', 'rb').read(4 << 20); print(flush=True); sys.stdin.read()"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"


def record(proc: Path, pid: int, parent: int, *, ticks: tuple[int, int, int, int], read_bytes: int | None) -> None:
    """Write what the kernel tells about a process: user and system time, its own and its ended children's."""
    directory = proc / str(pid)
    directory.mkdir()
    times = " ".join(str(tick) for tick in ticks)
    (directory / "stat").write_text(f"{pid} (sglang::sche) (x) S {parent} 1 1 0 -1 0 0 0 0 0 {times} 20 0 1 0 5\n")
    if read_bytes is not None:
        (directory / "io").write_text(f"rchar: {read_bytes}\nwchar: 7\nread_bytes: 0\n")


@contextmanager
def running(code: str, *arguments: str) -> Iterator[int]:
    """Yield the id of a process that has done its work and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.communicate(timeout=20)


# What counts


def test_a_second_of_processor_time_counts_and_less_does_not():
    before = Activity(1000, 0)
    assert Activity(1000 + PROCESSOR_TICKS_THAT_COUNT, 0).moved_since(before)
    assert not Activity(1000 + PROCESSOR_TICKS_THAT_COUNT - 1, 0).moved_since(before)


def test_a_mebibyte_counts_and_less_does_not():
    before = Activity(0, 5000)
    assert Activity(0, 5000 + READ_BYTES_THAT_COUNT).moved_since(before)
    assert not Activity(0, 5000 + READ_BYTES_THAT_COUNT - 1).moved_since(before)


# A recorded tree


def test_everything_below_a_process_counts_and_nothing_beside_it(tmp_path: Path):
    record(tmp_path, 10, 1, ticks=(1, 2, 0, 0), read_bytes=100)
    record(tmp_path, 11, 10, ticks=(10, 20, 0, 0), read_bytes=1000)
    record(tmp_path, 12, 11, ticks=(100, 200, 0, 0), read_bytes=10_000)
    record(tmp_path, 99, 1, ticks=(9999, 9999, 0, 0), read_bytes=999_999)
    assert look(10, tmp_path) == Activity(333, 11_100)
    assert sorted(descendants(10, str(tmp_path))) == [11, 12]


def test_the_time_of_children_that_have_ended_counts(tmp_path: Path):
    record(tmp_path, 10, 1, ticks=(1, 2, 300, 400), read_bytes=0)
    assert look(10, tmp_path).processor_ticks == 703


def test_processor_time_counts_where_reads_are_not_told(tmp_path: Path):
    record(tmp_path, 10, 1, ticks=(1, 2, 0, 0), read_bytes=None)
    assert look(10, tmp_path) == Activity(3, 0)


def test_a_process_that_is_gone_has_done_nothing(tmp_path: Path):
    assert look(10, tmp_path) == Activity(0, 0)


def test_what_is_no_process_is_passed_over(tmp_path: Path):
    (tmp_path / "sys").mkdir()
    (tmp_path / "11").mkdir()
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text("")
    record(tmp_path, 10, 1, ticks=(1, 0, 0, 0), read_bytes=0)
    assert look(10, tmp_path) == Activity(1, 0)


# Real processes


def test_a_process_that_computes_is_seen():
    with running(BUSY) as busy, running(IDLE) as idle:
        before = {pid: look(pid) for pid in (busy, idle)}
        wait_for(lambda: look(busy).moved_since(before[busy]), 60, "a second of processor time")
        assert not look(idle).moved_since(before[idle])


def test_a_process_that_reads_is_seen():
    with running(READING) as reading, running(IDLE) as idle:
        assert look(reading).moved_since(Activity(10**6, look(idle).read_bytes))


def test_a_process_that_waits_does_not_move():
    with running(IDLE) as idle:
        before = look(idle)
        assert not look(idle).moved_since(before)


def test_work_below_a_process_that_waits_is_seen():
    with running(PARENT, BUSY) as parent:
        before = look(parent)
        wait_for(lambda: look(parent).moved_since(before), 60, "a second of processor time")
        assert len(descendants(parent)) == 1
