"""A Slurm step that runs into its memory limit: Slurm says that it happened, the report says to whom and why."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial

import pytest
from harness import SUPERVISE, Supervised
from parts.death import OUT_OF_MEMORY, assert_told_as_out_of_memory
from parts.slurm import SlurmCluster
from stage import Stage, playing

pytestmark = pytest.mark.slurm
LIMIT_MIB = 300
EATERS = {
    "main": {"eats_at": "ready"},
    "scheduler": {"eats_at": "load", "hangs_at": "load", "eats_who": "scheduler"},
}
Played = Mapping[str, Future[Supervised]]


def eat(stage: Stage, cluster: SlurmCluster, who: str) -> Supervised:
    """Have a process of the engine take memory in a step until the kernel kills it."""
    run = stage.make(**EATERS[who])
    run.command = cluster.command(
        *("srun", "--job-name", who, "--ntasks", "1", "--cpus-per-task", "2", "--mem", f"{LIMIT_MIB}M"),
        # Slurm has an exit status of its own for a step in which something ran out of memory.
        *("sh", "-c", '"$@"; echo $? > status', "sh"),
        *SUPERVISE,
        cwd=run.directory,
    )
    with run:
        assert run.wait(60) != 0
        run.assert_nothing_left()
    return run


@pytest.fixture(scope="module")
def played(stage: Stage, limiting_cluster: SlurmCluster) -> Iterator[Played]:
    with playing({who: partial(eat, stage, limiting_cluster, who) for who in EATERS}) as runs:
        yield runs


@pytest.mark.parametrize("who", EATERS)
def test_the_report_names_the_kernels_kill_the_steps_group_and_its_limit(played: Played, who: str):
    run = played[who].result()
    assert (run.directory / "status").read_text() == f"{OUT_OF_MEMORY}\n"
    assert_told_as_out_of_memory(run.report(), group="/slurm_n0/uid_0/job_", limit=f"{LIMIT_MIB} MiB")


@pytest.mark.parametrize("who", EATERS)
def test_slurm_says_out_of_memory_as_well(played: Played, limiting_cluster: SlurmCluster, who: str):
    run = played[who].result()
    job = limiting_cluster.ended_job(who)
    assert job["JobState"] == "OUT_OF_MEMORY"
    assert run.run_directory.name.startswith(job["JobId"])
