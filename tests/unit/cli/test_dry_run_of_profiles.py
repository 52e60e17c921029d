"""The dry run of each profile, under the environments that Slurm gives the tasks of a step: a command per rank."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from entrypoint.cli import main
from entrypoint.settings import profiles

HOSTS = "nid[002414,002426,002674,002712]"
FIRST = "nid002414"
CLUSTER = sorted(set(profiles.names()) - {"tiny"})


def environment(rank: int, nodes: int) -> Mapping[str, str]:
    """Return what srun gives the task of a rank, as recorded on a cluster with Slurm 25.05."""
    hosts = HOSTS if nodes > 1 else FIRST
    return {
        "SLURM_JOB_ID": "633011",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": str(rank),
        "SLURM_NTASKS": str(nodes),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_NODELIST": hosts,
        "SLURM_STEP_NUM_TASKS": str(nodes),
        "SLURM_STEP_TASKS_PER_NODE": "1" if nodes == 1 else f"1(x{nodes})",
        "SLURM_JOB_NODELIST": hosts,
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_CPUS_ON_NODE": "192",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_JOB_PARTITION": "mi300",
        "SLURM_CLUSTER_NAME": "beverin",
        "SLURMD_NODENAME": ["nid002414", "nid002426", "nid002674", "nid002712"][rank],
    }


@pytest.fixture
def dry(
    machine: Any,  # noqa: ARG001  # where nothing is set
    no_processes: None,  # noqa: ARG001  # it forbids them
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    """Return the data of a dry run of a profile on a rank."""

    def run(name: str, rank: int, nodes: int) -> dict[str, Any]:
        monkeypatch.delenv("SUPERVISE_ENGINE__DEVICE")
        for variable, value in environment(rank, nodes).items():
            monkeypatch.setenv(variable, value)
        main(["--dry-run", "--profile", name, "--format", "json"])
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        return said

    return run


def value(said: Mapping[str, Any], flag: str) -> str | None:
    argv = said["argv"]
    return argv[argv.index(flag) + 1] if flag in argv else None


def variables(said: Mapping[str, Any]) -> dict[str, str | None]:
    return {variable["name"]: variable["value"] for variable in said["environment"]}


SPANNING = [name for name in CLUSTER if profiles.read(name).nodes == 4]
ALONE = [name for name in CLUSTER if profiles.read(name).nodes == 1]


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("name", ALONE)
def test_on_four_nodes_a_model_that_fits_on_one_is_served_four_times(dry: Any, name: str, rank: int):
    said = dry(name, rank, 4)
    assert said["replica"] == {"index": rank, "rank": 0, "nodes": 1}
    assert not {"--nnodes", "--node-rank", "--dist-init-addr"} & set(said["argv"])
    assert "NCCL_NET_GDR_LEVEL" not in variables(said)


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("name", SPANNING)
def test_each_rank_of_four_nodes_is_told_who_it_is_and_where_all_meet(dry: Any, name: str, rank: int):
    said = dry(name, rank, 4)
    assert said["rank"] == rank
    assert value(said, "--nnodes") == "4"
    assert value(said, "--node-rank") == str(rank)
    assert value(said, "--dist-init-addr") == f"{FIRST}:29500"
    assert value(said, "--tp-size") == "4"
    assert variables(said)["NCCL_NET_GDR_LEVEL"] == "0"


@pytest.mark.parametrize("name", CLUSTER)
def test_on_one_node_nobody_is_met_and_nothing_is_said_of_the_fabric(dry: Any, name: str):
    said = dry(name, 0, 1)
    assert not {"--nnodes", "--node-rank", "--dist-init-addr"} & set(said["argv"])
    assert not {"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_NET_GDR_LEVEL"} & variables(said).keys()


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        (
            "qwen38",
            {"--mem-fraction-static": "0.306", "--attention-backend": "aiter", "--tool-call-parser": "qwen3_coder"},
        ),
        (
            "kimi27",
            {"--mem-fraction-static": "0.55", "--attention-backend": None, "--pp-size": "4", "--page-size": "64"},
        ),
        ("glm53", {"--attention-backend": None, "--max-total-tokens": "2800000", "--reasoning-parser": "glm45"}),
        ("gptoss120b", {"--mem-fraction-static": None, "--tool-call-parser": "gpt-oss"}),
        ("apertus70b", {"--mem-fraction-static": "0.5", "--reasoning-parser": "apertus2509"}),
    ],
)
def test_a_profile_gives_its_recipes_flags(dry: Any, name: str, flags: Mapping[str, str | None]):
    said = dry(name, 0, profiles.read(name).nodes)
    assert {flag: value(said, flag) for flag in flags} == flags


def test_a_model_that_needs_four_nodes_is_refused_on_one_and_the_remedy_is_no_larger_fraction(dry: Any):
    (refusal,) = [finding for finding in dry("kimi27", 0, 1)["findings"] if finding["rule"] == "nodes-few"]
    assert refusal["severity"] == "error"
    assert refusal["remedy"] == "Ask Slurm for 4 nodes."
