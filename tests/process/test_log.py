"""The engine's output: written, masked, understood, and never in the engine's way."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from harness import Supervised, wait_for
from stage import Stage, playing

pytestmark = pytest.mark.process
Played = Mapping[str, Future[Supervised]]
LINES = 300_000
HUGE_BYTES = 20_000_000
CAP_BYTES = 1 << 16
SLOWEST_ANSWER_S = 2.0
"""For an answer from memory that takes a millisecond on an idle machine."""


def flood(stage: Stage) -> Supervised:
    """Print 300,000 lines and one of 20 MB, and look at everything else meanwhile."""
    with stage.make(flood_lines=LINES, huge_line_bytes=HUGE_BYTES) as run:
        run.wait_state("ready")
        took_s: list[float] = []

        def printed() -> bool:
            asked_at = time.monotonic()
            assert run.get("/readyz").status_code == 200
            took_s.append(time.monotonic() - asked_at)
            return run.engine.has_printed()

        wait_for(printed, 60, "the flood printed")
        assert max(took_s) < SLOWEST_ANSWER_S
        assert run.ask("Hello")["choices"]
        stop(run)
    return run


def stop(run: Supervised) -> None:
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill_the_disk(stage: Stage) -> Supervised:
    """Print several times as much as the disk of the logs holds."""
    with small_disk(stage.directory / "small", "1m") as disk, stage.make("--logs.dir", str(disk)) as run:
        run.engine.turn(flood_lines=30_000)
        run.wait_state("ready")
        wait_for(lambda: run.status()["log"].get("dropped_lines"), 30, "lines dropped")
        assert run.status()["log"]["write_error"] == "No space left on device"
        dropped = [line for line in run.get("/metrics").text.splitlines() if line.startswith("supervise_log_lines")]
        assert float(dropped[0].split()[1]) > 0
        assert run.get("/readyz").status_code == 200
        assert run.ask("Hello")["choices"]
        stop(run)
        run.assert_nothing_left()
    return run


def begin_on_a_disk_too_small(stage: Stage) -> Supervised:
    """Start where there is room for a probe and none for the plan."""
    with small_disk(stage.directory / "smallest", "12k") as disk, stage.make("--logs.dir", str(disk)) as run:
        assert run.wait() == 73
    return run


def rotate(stage: Stage) -> Supervised:
    with stage.make("--logs.max_bytes", str(CAP_BYTES), flood_lines=2000) as run:
        run.wait_state("ready")
        wait_for(run.engine.has_printed, 30, "the flood printed")
        stop(run)
    return run


def close_output(stage: Stage) -> Supervised:
    with stage.make(closes_output=True) as run:
        run.wait_state("ready")
        assert run.ask("Hello")["choices"]
        stop(run)
    return run


def live_well(stage: Stage) -> Supervised:
    bars = "\rone:  10%|#  | 1/10 [00:00<?]\rone:  60%|## | 6/10 [00:00<?]\rone: 100%|###| 10/10 [00:00<?]\n"
    with stage.make(says=bars) as run:
        run.wait_state("ready")
        wait_for(lambda: "10/10" in log_of(run), 10, "the bar in the log")
        engine = run.status()["engine"]
        assert engine["pool_tokens"] == 8192
        assert engine["available_memory_gb"] > 0
        assert engine["attention_backend"] == "torch_native"
        stop(run)
    return run


def log_of(run: Supervised, name: str = "server-0.log") -> str:
    return (run.run_directory / name).read_text()


@pytest.fixture(scope="module")
def played(stage: Stage) -> Iterator[Played]:
    stories = {story.__name__: partial(story, stage) for story in (flood, live_well, rotate, close_output)}
    if os.geteuid() == 0:
        stories |= {story.__name__: partial(story, stage) for story in (fill_the_disk, begin_on_a_disk_too_small)}
    with playing(stories) as runs:
        yield runs


def test_a_flood_holds_up_nobody(played: Played):
    played["flood"].result()


def test_each_line_of_a_flood_is_in_the_file_or_counted(played: Played):
    run = played["flood"].result()
    dropped = run.report()["status"]["log"]["dropped_lines"]
    written = sum(line.startswith("flood ") for line in log_of(run).splitlines())
    assert 0 < written <= LINES <= written + dropped


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk wants root")
def test_a_full_disk_loses_lines_and_never_the_server(played: Played):
    played["fill_the_disk"].result()


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk wants root")
def test_a_disk_without_room_for_the_plan_is_told_as_such(played: Played):
    run = played["begin_on_a_disk_too_small"].result()
    assert "cannot be written: its file system is full" in run.stderr()
    assert "logs.dir" in run.stderr()
    assert "Traceback" not in run.stderr()


def test_a_log_that_is_full_is_set_aside(played: Played):
    run = played["rotate"].result()
    for name in ("server-0.log", "server-0.log.1"):
        file = run.run_directory / name
        assert 0 < file.stat().st_size <= CAP_BYTES
        assert file.stat().st_mode & 0o777 == 0o600
    assert "flood 1999 " in log_of(run) + log_of(run, "server-0.log.1")


def test_of_a_bar_its_last_state_is_kept(played: Played):
    log = log_of(played["live_well"].result())
    assert "10/10" in log
    assert "1/10" not in log.replace("10/10", "")
    assert "\r" not in log
    assert "4/4" in log


def test_an_engine_that_closes_its_output_serves_on(played: Played):
    assert played["close_output"].result().states()[-4:] == ["ready", "draining", "stopping", "stopped"]
