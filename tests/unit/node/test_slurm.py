import socket

import pytest

from entrypoint.node.slurm import SlurmStep, read_step
from entrypoint.outcome import ExitCode, SuperviseError

STEP = {
    "SLURM_JOB_ID": "401122",
    "SLURM_STEP_ID": "0",
    "SLURM_RESTART_COUNT": "1",
    "SLURMD_NODENAME": "nid002968",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "nid[002967-002968]",
    "SLURM_JOB_NUM_NODES": "5",
    "SLURM_JOB_END_TIME": "1764570000",
}


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in STEP.items() if name not in names}


def test_a_step_is_read_whole():
    assert read_step(STEP) == SlurmStep(
        job_id=401122,
        step_id="0",
        restart_count=1,
        node_name="nid002968",
        node_rank=1,
        process_id=1,
        nodes_in_step=2,
        job_end_unix_s=1764570000,
        hosts=("nid002967", "nid002968"),
    )


@pytest.mark.parametrize(
    ("hosts", "why"),
    [("", "no list of hosts"), ("nid[1", "no list of hosts"), ("nid[1-3]", "names 3 node")],
)
def test_a_step_of_several_nodes_must_name_them_all(hosts: str, why: str):
    with pytest.raises(SuperviseError, match=why) as caught:
        read_step(STEP | {"SLURM_STEP_NODELIST": hosts})
    assert caught.value.code is ExitCode.NODE_UNFIT


def test_a_step_of_one_node_needs_no_name_of_it():
    step = read_step(without("SLURM_STEP_NODELIST") | {"SLURM_STEP_NUM_NODES": "1", "SLURM_NODEID": "0"})
    assert step is not None
    assert step.hosts == ()


@pytest.mark.parametrize("missing", ["SLURM_JOB_ID", "SLURM_PROCID"])
def test_outside_of_a_job_and_in_the_shell_of_an_allocation_there_is_no_step(missing: str):
    assert read_step({}) is None
    assert read_step(without(missing)) is None


def test_the_batch_script_itself_is_a_step_of_one_node():
    step = read_step(without("SLURM_STEP_ID", "SLURM_STEP_NUM_NODES") | {"SLURM_NODEID": "0"})
    assert step is not None
    assert (step.step_id, step.nodes_in_step) == ("batch", 1)


def test_a_first_run_has_no_restart_count():
    step = read_step(without("SLURM_RESTART_COUNT"))
    assert step is not None
    assert step.restart_count == 0


@pytest.mark.parametrize("end", [None, "", "0"])
def test_a_job_without_an_end_has_no_deadline(end: str | None):
    step = read_step(without("SLURM_JOB_END_TIME") | ({} if end is None else {"SLURM_JOB_END_TIME": end}))
    assert step is not None
    assert step.job_end_unix_s is None


def test_a_node_that_slurm_does_not_name_is_called_by_its_host_name():
    step = read_step(without("SLURMD_NODENAME"))
    assert step is not None
    assert step.node_name == socket.gethostname()


@pytest.mark.parametrize(
    "name",
    ["SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURM_NODEID", "SLURM_PROCID", "SLURM_JOB_END_TIME"],
)
@pytest.mark.parametrize("value", ["-1", "1.5", "two", "0x1", "²", "1 2"])
def test_a_malformed_number_names_its_variable(name: str, value: str):
    with pytest.raises(SuperviseError, match=f"{name} should be a whole number") as caught:
        read_step(STEP | {name: value})
    assert caught.value.code is ExitCode.NODE_UNFIT
    assert repr(value) in caught.value.message


def test_spaces_around_a_number_are_harmless():
    step = read_step(STEP | {"SLURM_NODEID": " 1\n"})
    assert step is not None
    assert step.node_rank == 1


@pytest.mark.parametrize("name", ["SLURM_NODEID", "SLURM_STEP_NUM_NODES"])
def test_a_missing_variable_of_a_step_is_named(name: str):
    with pytest.raises(SuperviseError, match=f"{name} is not set"):
        read_step(without(name))


def test_a_rank_outside_of_its_step_is_refused():
    with pytest.raises(SuperviseError, match="SLURM_NODEID is 2, in a step of 2"):
        read_step(STEP | {"SLURM_NODEID": "2"})
