"""The memory watch: its looks, its file, its thread, and a kernel or a disk that hangs."""

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memory_trees as trees
import pytest
from memory_trees import GIB, STEP

from entrypoint.run import memory_watch
from entrypoint.run.memory_history import LowMemory, MemoryState
from entrypoint.run.memory_picture import outline, picture
from entrypoint.run.memory_watch import FIND_EVERY, MemoryWatch
from entrypoint.settings.schema import WatchSettings

PATIENCE_S = 20.0
EPOCH_S = 1_000_000.0
Make = Callable[..., MemoryWatch]


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def monotonic(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return EPOCH_S + self.now_s


class Notes:
    """What the loop was told."""

    def __init__(self) -> None:
        self.states: list[MemoryState] = []
        self.warnings: list[LowMemory] = []
        self.threads: set[str] = set()
        self.told = asyncio.Event()

    def state(self, state: MemoryState) -> None:
        self.states.append(state)
        self.threads.add(threading.current_thread().name)
        self.told.set()

    def low(self, warning: LowMemory) -> None:
        self.warnings.append(warning)

    async def next(self) -> MemoryState:
        self.told.clear()
        await asyncio.wait_for(self.told.wait(), PATIENCE_S)
        return self.states[-1]


class HungSink:
    """A disk that takes nothing and does not say so."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def write(self, data: bytes) -> int:
        assert self.let_go.wait(PATIENCE_S)
        return len(data)

    def close(self) -> None:
        """Nothing was opened."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The root of an MI300A node."""
    root = tmp_path / "node"
    trees.mi300a(root)
    return root


@pytest.fixture
def make(tmp_path: Path, node: Path, notes: Notes) -> Make:
    def watch(settings: WatchSettings | None = None, **more: Any) -> MemoryWatch:
        return MemoryWatch(
            tmp_path / "memory-0.jsonl",
            settings or WatchSettings(),
            on_state=notes.state,
            on_low=notes.low,
            root=more.pop("root", node),
            **more,
        )

    return watch


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# Looks, one by one


def test_before_an_engine_the_node_is_looked_at(make: Make, clock: Clock):
    state = make(monotonic=clock.monotonic, wall=clock.wall).step()
    assert state.sample.unix_s == EPOCH_S + 50
    assert state.sample.processes == ()
    assert state.sample.node.available_bytes == 120 * GIB
    assert state.floor_bytes == 8 * GIB


def test_an_engine_that_is_followed_is_seen_at_the_next_look(make: Make):
    watch = make()
    watch.step()
    watch.follow(100)
    assert watch.step().sample.engine_bytes == 23 * GIB
    watch.follow(None)
    assert watch.step().sample.engine_bytes == 0


def test_new_processes_are_found_every_few_looks(make: Make, node: Path):
    watch = make()
    watch.follow(103)
    assert watch.step().sample.engine_bytes == 0
    trees.process(node, 104, parent=103, resident=GIB)
    trees.thread(node, 103, 103, 104)
    found = [watch.step().sample.engine_bytes for _ in range(FIND_EVERY)]
    assert found == [0] * (FIND_EVERY - 1) + [GIB]


def test_a_process_that_ends_between_searches_is_left_out(make: Make, node: Path):
    watch = make()
    watch.follow(100)
    watch.step()
    (node / "proc/102/statm").unlink()
    assert watch.step().sample.engine_bytes == 3 * GIB


def test_kills_are_read_from_the_engines_group_after_its_processes_have_ended(make: Make, node: Path):
    watch = make()
    watch.follow(100)
    watch.step()
    trees.v2_group(node, STEP, current=GIB, kills=2, local=2)
    for pid in (100, 101, 102, 103):
        (node / f"proc/{pid}/task/{pid}/children").unlink()
        (node / f"proc/{pid}/stat").unlink()
    for _ in range(FIND_EVERY):
        state = watch.step()
    assert state.sample.processes == ()
    assert state.cgroup_oom_kills == 1
    evidence = watch.known_evidence(state.sample.unix_s)
    assert evidence.cgroup_oom_kills == 1
    assert evidence.limit_of.endswith("/step_0")


def test_the_settings_decide_floor_and_warning(make: Make, node: Path, clock: Clock):
    falling = WatchSettings(memory_floor_gib=20, memory_warn_s=60)
    watch = make(falling, monotonic=clock.monotonic, wall=clock.wall)
    for second in range(40):
        clock.now_s += 1
        trees.meminfo(node, available_kib=(100 - second) << 20)
        state = watch.step()
    assert state.floor_bytes == 20 * GIB
    assert state.seconds_to_floor == pytest.approx(41, abs=0.5)


def test_a_look_that_goes_wrong_is_kept_and_the_next_one_is_made(make: Make, monkeypatch: pytest.MonkeyPatch):
    watch = make()
    with monkeypatch.context() as broken:
        broken.setattr(memory_watch, "take_sample", lambda *_: 1 / 0)
        assert watch.step() is None
    assert watch.failure == "ZeroDivisionError: division by zero"
    assert watch.step() is not None
    assert watch.silent_s == 0.0


def test_nothing_is_known_before_the_first_look(make: Make):
    assert make().known_evidence(0.0) is None


def test_a_watch_that_never_began_can_be_asked_and_stopped(make: Make):
    watch = make()
    assert asyncio.run(watch.evidence(0.0)) is None
    assert watch.stop()


# In its thread


def test_the_loop_is_told_of_looks_in_its_own_thread(make: Make, notes: Notes, tmp_path: Path):
    async def run() -> bool:
        watch = make(WatchSettings(memory_every_s=0.01))
        watch.start()
        for _ in range(3):
            await notes.next()
        return watch.stop(PATIENCE_S)

    assert asyncio.run(run())
    assert notes.threads == {"MainThread"}
    path = tmp_path / "memory-0.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(lines(path)) >= 3
    assert lines(path)[:2] == [picture(notes.states[0]), outline(notes.states[1])]


def test_low_memory_is_told_to_the_loop_once(make: Make, node: Path, notes: Notes):
    trees.meminfo(node, available_kib=5 << 20, AnonPages=300 << 20)

    async def run() -> None:
        watch = make(WatchSettings(memory_every_s=0.01))
        watch.start()
        for _ in range(3):
            await notes.next()
        assert watch.stop(PATIENCE_S)

    asyncio.run(run())
    (warning,) = notes.warnings
    assert warning.seconds_to_floor == 0.0
    assert warning.owners[0] == "other processes 300.0 GiB"


def test_an_end_is_looked_at_once_more_before_it_is_told(make: Make, node: Path, notes: Notes):
    async def run() -> tuple[int | None, int | None]:
        watch = make(WatchSettings(memory_every_s=3600))
        watch.start()
        await notes.next()
        trees.vmstat(node, 4)
        known = watch.known_evidence(memory_watch.time.time())
        evidence = await watch.evidence(memory_watch.time.time(), within_s=PATIENCE_S)
        assert watch.stop(PATIENCE_S)
        return known.node_oom_kills, evidence.node_oom_kills

    assert asyncio.run(run()) == (0, 1)


def test_a_kernel_that_hangs_holds_up_nobody_and_is_told(make: Make, node: Path, notes: Notes, clock: Clock):
    async def run() -> None:
        watch = make(WatchSettings(memory_every_s=1), monotonic=clock.monotonic, wall=clock.wall)
        watch.start()
        first = await notes.next()
        (node / "proc/vmstat").unlink()
        os.mkfifo(node / "proc/vmstat")  # opening it waits for somebody to write
        evidence = await watch.evidence(clock.wall(), within_s=0.05)
        assert evidence is not None
        assert evidence.node_oom_kills == 0
        clock.now_s += 30
        assert watch.silent_s == 30
        assert notes.states == [first]
        assert not watch.stop(0.05)
        with (node / "proc/vmstat").open("w") as late:
            late.write("oom_kill 5\n")
        assert watch.stop(PATIENCE_S)
        assert watch.silent_s == 0
        assert watch.missed_samples == 29

    asyncio.run(run())


def test_a_disk_that_hangs_holds_up_no_look(make: Make, notes: Notes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_watch, "QUEUE_BYTES", 1)
    sink = HungSink()

    async def run() -> MemoryWatch:
        watch = make(WatchSettings(memory_every_s=0.01), sink=sink)
        watch.start()
        for _ in range(5):
            await notes.next()
        assert not watch.stop(0.05)
        sink.let_go.set()
        assert watch.stop(PATIENCE_S)
        return watch

    assert asyncio.run(run()).unwritten_samples >= 1


def test_a_disk_that_fails_is_counted_and_told(make: Make, notes: Notes, tmp_path: Path):
    (tmp_path / "memory-0.jsonl").mkdir()

    async def run() -> MemoryWatch:
        watch = make(WatchSettings(memory_every_s=0.01))
        watch.start()
        for _ in range(3):
            await notes.next()
        assert watch.stop(PATIENCE_S)
        return watch

    watch = asyncio.run(run())
    assert watch.unwritten_samples >= 3
    assert watch.last_write_error == "Is a directory"


def test_lost_samples_leave_a_line_of_json(make: Make, notes: Notes, tmp_path: Path):
    blocked = tmp_path / "memory-0.jsonl"
    blocked.mkdir()

    async def run() -> None:
        watch = make(WatchSettings(memory_every_s=0.01))
        watch.start()
        await notes.next()
        while not watch.unwritten_samples:
            await notes.next()
        blocked.rmdir()
        while not blocked.exists():
            await notes.next()
        assert watch.stop(PATIENCE_S)

    asyncio.run(run())
    first = lines(blocked)[0]
    assert first["unwritten_samples"] >= 1
    assert first["reason"] == "Is a directory"


def test_the_file_is_set_aside_when_it_is_full(
    make: Make, notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(memory_watch, "MAX_BYTES", 8192)

    async def run() -> None:
        watch = make(WatchSettings(memory_every_s=0.01))
        watch.start()
        while not (tmp_path / "memory-0.jsonl.1").exists():
            await notes.next()
        assert watch.stop(PATIENCE_S)

    asyncio.run(run())
    assert (tmp_path / "memory-0.jsonl").stat().st_size <= 8192
    assert (tmp_path / "memory-0.jsonl.1").stat().st_size <= 8192
    assert lines(tmp_path / "memory-0.jsonl.1")


def test_a_loop_that_has_ended_is_told_no_more(make: Make, notes: Notes):
    async def run() -> MemoryWatch:
        watch = make(WatchSettings(memory_every_s=0.01))
        watch.start()
        await notes.next()
        return watch

    watch = asyncio.run(run())
    told = len(notes.states)
    assert watch.stop(PATIENCE_S)
    assert len(notes.states) == told
    assert watch.failure is None


# The picture


def test_the_picture_is_json_with_everything_in_bytes(make: Make):
    watch = make()
    watch.follow(100)
    shown = json.loads(json.dumps(picture(watch.step())))
    assert shown["available_bytes"] == shown["headroom_bytes"] == 120 * GIB
    assert shown["node"]["total_bytes"] == 513.5 * GIB
    assert (shown["limit_bytes"], shown["limit_of"].endswith("/step_0")) == (500 * GIB, True)
    assert shown["engine_bytes"] == 23 * GIB
    assert [apu["gtt_used_bytes"] // GIB for apu in shown["apus"]] == [70, 71, 72, 73]
    assert [each["free_bytes"] // GIB for each in shown["numa"]] == [10, 11, 12, 13]
    assert shown["pressure"] == {"some": 0.015, "full": 0.0025}
    assert shown["oom_kills"] == {"node": 0, "cgroup": 0}
    assert shown["seconds_to_floor"] is None


def test_a_line_between_holds_a_part_of_the_picture(make: Make):
    state = make().step()
    whole, part = picture(state), outline(state)
    assert part.items() < whole.items()
    assert part["headroom_bytes"] == 120 * GIB


def test_the_picture_of_nothing_is_json_too(make: Make, tmp_path: Path):
    shown = json.loads(json.dumps(picture(make(root=tmp_path / "nowhere").step())))
    assert shown["available_bytes"] is shown["headroom_bytes"] is shown["floor_bytes"] is None
    assert shown["apus"] == shown["processes"] == []
