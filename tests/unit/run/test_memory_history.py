"""The memory history: warnings, counters, and what it says of an end."""

from collections.abc import Callable, Iterable

import pytest

from entrypoint.node.cgroup import CgroupMemory
from entrypoint.node.meminfo import NodeMemory
from entrypoint.node.memory import MemorySample
from entrypoint.node.processes import ProcessMemory
from entrypoint.run.memory_history import CALM_S, CURVE_POINTS, LowMemory, MemoryHistory, MemoryState

GIB = 1 << 30
EPOCH_S = 1_000_000.0
"""Unix time at which the monotonic clock of these tests stood at 0."""


Warned = Callable[[Iterable[MemorySample]], list[tuple[float, LowMemory]]]


def sample(
    at_s: float, left_gib: float, *, kills: int | None = 0, groups: Iterable[CgroupMemory] = (), engine_gib: float = 0
) -> MemorySample:
    left_bytes = int(left_gib * GIB)
    processes = (ProcessMemory(7, "sglang::scheduler", int(engine_gib * GIB), int(engine_gib * GIB)),)
    return MemorySample(
        EPOCH_S + at_s,
        at_s,
        NodeMemory(512 * GIB, left_bytes, cached_bytes=90 * GIB),
        groups=tuple(groups),
        oom_kills=kills,
        processes=processes if engine_gib else (),
    )


def group(path: str = "/job", kills: int | None = 0, *, own: bool = True, limit_gib: int | None = None) -> CgroupMemory:
    limit_bytes = None if limit_gib is None else limit_gib * GIB
    return CgroupMemory(path, own, 5 * GIB, limit_bytes, oom_kills=kills)


@pytest.fixture
def history() -> MemoryHistory:
    return MemoryHistory(floor_gib=8, warn_s=180, every_s=1)


@pytest.fixture
def warned(history: MemoryHistory) -> Warned:
    """Note samples; return the warnings that were due, with their times."""

    def note(samples: Iterable[MemorySample]) -> list[tuple[float, LowMemory]]:
        found = []
        for each in samples:
            history.note(each)
            warning = history.warning()
            if warning is not None:
                found.append((each.monotonic_s, warning))
        return found

    return note


# Warnings


def test_a_fall_towards_the_floor_warns_once_before_it_happens(warned: Warned):
    falling = [sample(at_s, 200 - 0.5 * at_s, engine_gib=60) for at_s in range(384)]
    ((at_s, warning),) = warned(falling)
    assert at_s == pytest.approx((200 - 8) / 0.5 - 180, abs=2)
    assert warning.seconds_to_floor == pytest.approx(180, abs=2)
    assert warning.headroom_bytes == falling[int(at_s)].headroom_bytes
    assert warning.floor_bytes == 8 * GIB
    assert warning.owners == ("page cache 90.0 GiB", "sglang::scheduler (process 7) 60.0 GiB")


def test_what_holds_still_above_the_floor_warns_of_nothing(warned: Warned):
    assert warned(sample(at_s, 9 + 0.01 * (at_s % 7)) for at_s in range(500)) == []


def test_a_load_that_ends_well_above_the_floor_warns_of_nothing(warned: Warned):
    assert warned(sample(at_s, 60 + 400 * 2 ** (-at_s / 30)) for at_s in range(500)) == []


def test_at_the_floor_a_warning_comes_at_once(warned: Warned):
    ((at_s, warning),) = warned([sample(0, 300), sample(1, 7)])
    assert (at_s, warning.seconds_to_floor) == (1, 0.0)


def test_around_the_threshold_there_is_one_warning(warned: Warned):
    assert len(warned(sample(at_s, 8.001 if at_s % 2 else 7.999) for at_s in range(600))) == 1


def test_after_a_calm_minute_there_can_be_another_warning(warned: Warned):
    low, calm = sample(0, 5), [sample(1 + at_s, 300) for at_s in range(int(CALM_S) + 1)]
    assert len(warned([low, *calm, sample(100, 5)])) == 2


def test_after_less_than_a_calm_minute_there_is_none(warned: Warned):
    low, calm = sample(0, 5), [sample(1 + at_s, 300) for at_s in range(int(CALM_S) - 2)]
    assert len(warned([low, *calm, sample(CALM_S - 1, 5)])) == 1


def test_a_fall_that_only_slows_down_is_not_calm(warned: Warned):
    begin = [sample(at_s, 100 - 0.5 * at_s) for at_s in range(101)]
    slower = [sample(101 + at_s, 50 - 0.13 * at_s) for at_s in range(250)]
    assert len(warned([*begin, *slower])) == 1


def test_the_floor_of_a_small_group_is_small(history: MemoryHistory):
    state = history.note(sample(0, 300, groups=[group(limit_gib=20)]))
    assert state.floor_bytes == 1 * GIB


def test_what_cannot_be_read_warns_of_nothing(history: MemoryHistory):
    state = history.note(MemorySample(EPOCH_S, 0.0, None))
    assert state == MemoryState(MemorySample(EPOCH_S, 0.0, None), 0, None, None, None)
    assert history.warning() is None
    assert history.evidence(EPOCH_S) is None


# Counters


def test_counters_are_rises_and_not_what_the_kernel_began_with(history: MemoryHistory):
    history.note(sample(0, 300, kills=41, groups=[group(kills=3), group("/", kills=9, own=False)]))
    state = history.note(sample(1, 300, kills=42, groups=[group(kills=5), group("/", kills=99, own=False)]))
    assert (state.node_oom_kills, state.cgroup_oom_kills) == (1, 2)


def test_counters_that_cannot_be_read_are_unknown_and_not_zero(history: MemoryHistory):
    state = history.note(sample(0, 300, kills=None, groups=[group(kills=None)]))
    assert (state.node_oom_kills, state.cgroup_oom_kills) == (None, None)
    evidence = history.evidence(EPOCH_S)
    assert evidence is not None
    assert (evidence.node_oom_kills, evidence.cgroup_oom_kills) == (None, None)


def test_a_group_that_the_engine_moved_to_counts_from_there(history: MemoryHistory):
    history.note(sample(0, 300, groups=[group("/a", kills=3)]))
    history.note(sample(1, 300, groups=[group("/a/b", kills=50)]))
    state = history.note(sample(2, 300, groups=[group("/a/b", kills=51)]))
    assert state.cgroup_oom_kills == 1


def test_a_group_that_is_gone_keeps_what_it_counted(history: MemoryHistory):
    history.note(sample(0, 300, groups=[group(kills=3)]))
    history.note(sample(1, 300, groups=[group(kills=4)]))
    assert history.note(sample(2, 300)).cgroup_oom_kills == 1


def test_another_engine_is_not_charged_with_older_kills(history: MemoryHistory):
    history.note(sample(0, 300, kills=0, groups=[group(kills=0)]))
    history.note(sample(1, 300, kills=1, groups=[group(kills=1)]))
    history.begin_engine()
    state = history.note(sample(2, 300, kills=1, groups=[group(kills=1)]))
    assert (state.node_oom_kills, state.cgroup_oom_kills) == (1, 1)
    evidence = history.evidence(EPOCH_S + 2)
    assert evidence is not None
    assert (evidence.node_oom_kills, evidence.cgroup_oom_kills) == (0, 0)


# An end


def test_memory_that_ran_out_before_an_end_is_told_without_what_came_after(history: MemoryHistory):
    for at_s, left_gib, engine_gib in ((0, 300, 50), (1, 60, 290), (2, 3, 347), (3, 350, 0)):
        history.note(sample(at_s, left_gib, kills=int(at_s == 3), engine_gib=engine_gib))
    evidence = history.evidence(EPOCH_S + 3.5)
    assert evidence is not None
    assert evidence.at_floor
    assert [point.headroom_bytes // GIB for point in evidence.points] == [300, 60, 3]
    assert evidence.node_oom_kills == 1
    assert evidence.owners[0].name == "sglang::scheduler"
    assert evidence.owners[0].bytes == 347 * GIB


def test_an_end_with_memory_left_is_not_at_the_floor(history: MemoryHistory):
    for at_s in range(5):
        history.note(sample(at_s, 100, engine_gib=40))
    evidence = history.evidence(EPOCH_S + 4.5)
    assert evidence is not None
    assert not evidence.at_floor
    assert len(evidence.points) == 5
    assert evidence.total_bytes == 512 * GIB
    assert evidence.floor_bytes == 8 * GIB
    assert (evidence.limit_bytes, evidence.limit_of) == (None, None)


def test_memory_that_was_short_long_before_an_end_was_not_its_cause(history: MemoryHistory):
    for at_s in range(60):
        history.note(sample(at_s, 5 if at_s == 10 else 100))
    evidence = history.evidence(EPOCH_S + 59.5)
    assert evidence is not None
    assert not evidence.at_floor
    assert evidence.points[-1].headroom_bytes == 100 * GIB


def test_what_was_seen_after_an_end_is_no_part_of_it(history: MemoryHistory):
    for at_s, left_gib in ((0, 70), (1, 50), (2, 25), (3, 400), (4, 400)):
        history.note(sample(at_s, left_gib))
    evidence = history.evidence(EPOCH_S + 2.9)
    assert evidence is not None
    assert evidence.at_floor
    assert evidence.points[-1].headroom_bytes == 25 * GIB


def test_an_end_before_the_first_look_is_told_from_that(history: MemoryHistory):
    history.note(sample(5, 100, engine_gib=2))
    evidence = history.evidence(EPOCH_S)
    assert evidence is not None
    assert evidence.points == ()
    assert not evidence.at_floor


def test_the_tightest_group_is_named(history: MemoryHistory):
    history.note(sample(0, 300, groups=[group("/job/step", limit_gib=300), group("/job", limit_gib=400, own=False)]))
    evidence = history.evidence(EPOCH_S)
    assert evidence is not None
    assert (evidence.limit_of, evidence.limit_bytes) == ("/job/step", 300 * GIB)


def test_a_long_run_has_a_curve_of_bounded_length(history: MemoryHistory):
    for at_s in range(5000):
        history.note(sample(at_s, 100))
    evidence = history.evidence(EPOCH_S + 5000)
    assert evidence is not None
    assert len(evidence.points) == CURVE_POINTS
    assert evidence.points[0].unix_s < EPOCH_S + 600


def test_looks_that_were_hours_apart_are_no_trend(history: MemoryHistory):
    for at_s in range(40):
        history.note(sample(at_s, 100 - at_s))
    late = history.note(sample(9000, 20))
    assert late.seconds_to_floor is None
