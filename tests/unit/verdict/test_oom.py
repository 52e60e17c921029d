"""What may be called out of memory: each row of the table, and what is next to it."""

import pytest
from rank_ends import GIB, child_death, end, hit, killed, memory

from entrypoint.cause import Cause, Confidence
from entrypoint.engine.signature import Role
from entrypoint.verdict.evidence import MemoryPoint, RankEnd
from entrypoint.verdict.oom import out_of_memory

AT_FLOOR = {"at_floor": True, "points": (MemoryPoint(100.0, 2 * GIB, 2 * GIB),)}
UNCOUNTED = {"node_oom_kills": None, "cgroup_oom_kills": None}


def slurm_says_so(**more: object) -> object:
    return hit("mem.slurm", Role.CONFIRMATION, Cause.MEMORY, **more)


@pytest.mark.parametrize(
    ("ended", "confidence"),
    [
        (killed(memory=memory(cgroup_oom_kills=1)), Confidence.CERTAIN),
        (end(memory=memory(cgroup_oom_kills=1)), Confidence.CERTAIN),  # the kernel took a helper
        (killed(slurm_says_so()), Confidence.CERTAIN),
        (killed(memory=memory(node_oom_kills=1, **AT_FLOOR)), Confidence.CERTAIN),
        (killed(memory=memory(node_oom_kills=1, cgroup_oom_kills=None)), Confidence.PROBABLE),
        (killed(memory=memory(**UNCOUNTED, **AT_FLOOR)), Confidence.PROBABLE),
        (killed(available_gib=1.5), Confidence.POSSIBLE),
        (end(child_deaths=(child_death(9),), memory=memory(node_oom_kills=2, **AT_FLOOR)), Confidence.CERTAIN),
        (end(child_deaths=(child_death(9),), available_gib=0.4), Confidence.POSSIBLE),
    ],
)
def test_each_combination_has_its_confidence(ended: RankEnd, confidence: Confidence):
    found = out_of_memory(ended)
    assert found is not None
    assert found.confidence is confidence
    assert found.reasons


@pytest.mark.parametrize(
    "ended",
    [
        killed(),
        killed(memory=memory()),
        killed(memory=memory(**AT_FLOOR)),  # nobody's counter rose: a person killed it
        killed(memory=memory(node_oom_kills=1)),  # in another group: the engine's own counted nothing
        killed(available_gib=100.0),
        killed(available_gib=1.5, memory=memory()),
        end(memory=memory(node_oom_kills=1, **AT_FLOOR)),  # somebody else's process: this one ended by itself
        end(available_gib=1.5),
        killed(slurm_says_so(health_after=3)),  # an older kill, which this engine outlived
        end(child_deaths=(child_death(11),), memory=memory(node_oom_kills=1)),
    ],
)
def test_what_only_looks_like_it_is_not_called_so(ended: RankEnd):
    assert out_of_memory(ended) is None


def test_an_engine_that_kills_itself_was_not_killed_for_memory():
    suicide = hit("exit.sigquit_run", Role.CASCADE, Cause.ENGINE)
    assert out_of_memory(killed(suicide, memory=memory(node_oom_kills=1, **AT_FLOOR))) is None
    assert out_of_memory(killed(memory=memory(node_oom_kills=1, **AT_FLOOR))) is not None


def test_the_cgroup_and_its_limit_are_named():
    found = out_of_memory(killed(memory=memory(cgroup_oom_kills=2, limit_bytes=64 << 20, limit_of="/job/step")))
    assert found is not None
    assert found.reasons == (
        "The kernel's out-of-memory killer ended 2 processes of the cgroup /job/step, whose limit is 64 MiB.",
    )
