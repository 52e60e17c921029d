"""Topology: which nodes of a step serve together."""

import pytest

from entrypoint.node.slurm import SlurmStep
from entrypoint.plan.topology import Replica, gang_arguments, replica_of
from entrypoint.settings.schema import TopologySettings

HOSTS = ("nid3", "nid1", "nid4", "nid2")


def step(rank: int, nodes: int = 4) -> SlurmStep:
    return SlurmStep(7, "0", 0, HOSTS[rank], rank, rank, nodes, None, HOSTS[:nodes])


def topology(**settings: int) -> TopologySettings:
    return TopologySettings.model_validate(settings)


def spans(settings: TopologySettings, nodes: int = 4, **environ: str) -> int:
    return replica_of(settings, step(0, nodes), environ).nodes


def test_without_slurm_and_on_one_node_there_is_one_server_of_one_node():
    assert replica_of(topology(), None, {}) == Replica()
    assert replica_of(topology(pipeline_parallel=4), step(0, 1), {}) == Replica()


@pytest.mark.parametrize(
    ("settings", "nodes"),
    [
        ({}, 1),
        ({"tensor_parallel": 4}, 1),
        ({"tensor_parallel": 8}, 2),
        ({"tensor_parallel": 4, "pipeline_parallel": 4}, 4),
        ({"tensor_parallel": 4, "pipeline_parallel": 3}, 3),
        ({"tensor_parallel": 4, "pipeline_parallel": 9}, 4),  # the step has no more
        ({"tensor_parallel": 4, "nodes_per_replica": 2}, 2),
    ],
)
def test_a_server_spans_as_many_nodes_as_its_devices_need(settings: dict[str, int], nodes: int):
    assert spans(topology(**settings)) == nodes


def test_slurm_says_how_many_gpus_a_node_has():
    assert spans(topology(tensor_parallel=8), SLURM_GPUS_ON_NODE="8") == 1
    assert spans(topology(tensor_parallel=8), SLURM_GPUS_ON_NODE="none") == 2


def test_nodes_are_dealt_out_in_slurms_order():
    found = [replica_of(topology(nodes_per_replica=2), step(rank), {}) for rank in range(4)]
    assert found == [
        Replica(0, 0, ("nid3", "nid1"), 2),
        Replica(0, 1, ("nid3", "nid1"), 2),
        Replica(1, 0, ("nid4", "nid2"), 2),
        Replica(1, 1, ("nid4", "nid2"), 2),
    ]


def test_all_ranks_of_a_server_meet_on_its_first_node():
    flags = gang_arguments(topology(dist_port=29999), Replica(1, 1, ("nid4", "nid2"), 2))
    assert [flag.words for flag in flags] == [
        ("--nnodes", "2"),
        ("--node-rank", "1"),
        ("--dist-init-addr", "nid4:29999"),
    ]


def test_a_server_of_one_node_meets_nobody():
    assert gang_arguments(topology(), Replica(2, 0, ("nid4",), 1)) == ()
