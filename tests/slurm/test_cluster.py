"""The cluster that tests run in is one: several nodes, each with what it promises."""

from pathlib import Path

import pytest
from parts.slurm import SlurmCluster, reason_against

pytestmark = pytest.mark.slurm
LOOK = 'echo "$(hostname) $ROCR_VISIBLE_DEVICES $(grep :memory: /proc/self/cgroup)"'


@pytest.mark.parametrize("cgroup", [True, False])
@pytest.mark.parametrize("netns", [True, False])
def test_a_step_runs_on_every_node_with_its_gpus_and_leaves_nothing(tmp_path: Path, *, netns: bool, cgroup: bool):
    if reason := reason_against(cgroup=cgroup):
        pytest.skip(reason)
    with SlurmCluster(tmp_path, nodes=2, cgroup=cgroup, netns=netns, gpus=2) as cluster:
        said = cluster.run("srun", "-J", "look", "-N2", "-n2", "--mem=100", "--gres=gpu:2", "sh", "-c", LOOK)
        assert cluster.ended_job("look")["JobState"] == "COMPLETED"
    hosts, gpus, groups = zip(*(line.split() for line in said.splitlines()), strict=True)
    assert sorted(hosts) == ["n0", "n1"] if netns else len(set(hosts)) == 1
    assert gpus == ("0,1", "0,1")
    assert all(("/slurm_n" in group) is cgroup for group in groups)
    assert not list(Path("/sys/fs/cgroup").glob("*/slurm_n1"))
