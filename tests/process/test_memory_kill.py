"""Real kills by the kernel's out-of-memory killer, in a group of version 1 made for them, and kills that are none."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.memory_group import memory_group, reason_against

from entrypoint.node.cgroup import group_memory, groups_of
from entrypoint.node.pressure import node_oom_kills
from entrypoint.run.memory_watch import MemoryWatch
from entrypoint.settings.schema import WatchSettings
from entrypoint.verdict.evidence import MemoryEvidence

LIMIT_BYTES = 64 << 20
PATIENCE_S = 60.0
CHILD = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as group:
    group.write(str(os.getpid()))
print(flush=True)
sys.stdin.readline()
taken = bytearray()
while True:
    taken += bytearray(4 << 20)
"""
"""Enters the group, waits for a word, and then takes memory until somebody ends it."""

pytestmark = pytest.mark.process


@pytest.fixture
def group() -> Iterator[Path]:
    """A group with a small limit."""
    if reason := reason_against():
        pytest.skip(reason)
    with memory_group(LIMIT_BYTES) as made:
        yield made.directory


@pytest.fixture
def child(group: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the group that waits to be let loose."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(group)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def watched_to_its_end(child: subprocess.Popen[bytes], directory: Path, end: bytes | None) -> MemoryEvidence:
    """Watch a child until it is killed: by the kernel after a word, or by this process.

    Args:
        child: The child.
        directory: Where the watch writes.
        end: The word; None to kill it at once.
    """

    async def run() -> MemoryEvidence | None:
        seen = asyncio.Event()
        watch = MemoryWatch(
            directory / "memory-0.jsonl",
            WatchSettings(memory_every_s=0.02),
            on_state=lambda state: seen.set() if state.sample.processes else None,
            on_low=lambda _: None,
        )
        watch.start()
        watch.follow(os.getpid())
        await asyncio.wait_for(seen.wait(), PATIENCE_S)
        if end is None:
            child.kill()
        else:
            assert child.stdin is not None
            child.stdin.write(end)
            child.stdin.flush()
        await asyncio.to_thread(child.wait, PATIENCE_S)
        evidence = await watch.evidence(time.time(), within_s=PATIENCE_S)
        assert watch.stop(PATIENCE_S)
        return evidence

    found = asyncio.run(run())
    assert found is not None
    return found


def test_a_child_that_eats_its_groups_memory_raises_the_counters(
    child: subprocess.Popen[bytes], group: Path, tmp_path: Path
):
    before = node_oom_kills()
    evidence = watched_to_its_end(child, tmp_path, b"\n")
    assert child.returncode == -9
    assert evidence.cgroup_oom_kills == 1
    assert evidence.node_oom_kills is not None
    assert evidence.node_oom_kills >= 1
    assert before is not None
    assert (node_oom_kills() or 0) > before
    assert evidence.limit_bytes == LIMIT_BYTES
    assert evidence.limit_of == f"/{group.name}"


def test_a_child_that_is_killed_by_somebody_raises_none(child: subprocess.Popen[bytes], tmp_path: Path):
    evidence = watched_to_its_end(child, tmp_path, None)
    assert child.returncode == -9
    assert evidence.cgroup_oom_kills == 0
    assert not evidence.at_floor


def test_page_cache_of_a_file_that_was_read_takes_no_headroom(group: Path, tmp_path: Path):
    """As weights do: the kernel drops them again before it kills."""
    file = tmp_path / "weights"
    file.write_bytes(bytes(48 << 20))
    os.sync()
    with file.open("rb") as weights:
        os.posix_fadvise(weights.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    reader = (
        f"import os, sys; open('{group}/cgroup.procs', 'w').write(str(os.getpid())); open('{file}', 'rb').read(1)\n"
    )
    reader += f"with open('{file}', 'rb') as weights:\n    while weights.read(1 << 20): pass\n"
    reader += "print(flush=True); sys.stdin.readline()"
    with subprocess.Popen([sys.executable, "-c", reader], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        memory = next(group_memory(each) for each in groups_of(process.pid) if each.is_own)
        process.communicate(b"\n", timeout=PATIENCE_S)
    assert memory is not None
    assert memory.limit_bytes == LIMIT_BYTES
    assert memory.current_bytes > 40 << 20
    assert memory.headroom_bytes is not None
    assert memory.headroom_bytes > 40 << 20
