"""What a plan needs to know of the machine and the caller."""

import os
import pwd
import socket
from pathlib import Path
from typing import NoReturn

import pytest

from entrypoint.node.facts import read, working_directory
from entrypoint.outcome import ExitCode, SuperviseError

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "nid[1-2]",
    "SLURMD_NODENAME": "nid2",
}


def test_the_supervisors_own_variables_are_left_out_and_others_are_not():
    environ = read({"SUPERVISE_TOKEN": "s3cret", "SUPERVISE_ENGINE__PORT": "1", "SUPERVISED": "1", "A": "2"}).environ
    assert environ == {"SUPERVISED": "1", "A": "2"}


def test_home_and_directory_are_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    facts = read({"HOME": "/home/me"})
    assert (facts.home, facts.cwd, facts.host_name) == (Path("/home/me"), tmp_path, socket.gethostname())


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_without_a_home_it_is_the_one_that_the_system_knows(environ: dict[str, str]):
    assert read(environ).home == Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_a_user_whom_the_system_does_not_know_lives_in_the_root(monkeypatch: pytest.MonkeyPatch):
    def unknown(uid: int) -> NoReturn:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert read({}).home == Path("/")


def test_outside_of_slurm_there_is_one_node():
    facts = read({})
    assert (facts.step, facts.nodes, facts.rank) == (None, 1, 0)


def test_in_a_step_nodes_and_rank_are_the_steps():
    facts = read(STEP)
    assert (facts.nodes, facts.rank) == (2, 1)


def test_a_step_that_makes_no_sense_is_an_error():
    with pytest.raises(SuperviseError):
        read({**STEP, "SLURM_NODEID": "x"})


def test_a_directory_that_is_gone_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SuperviseError) as caught:
        working_directory()
    os.chdir(tmp_path)
    assert caught.value.code is ExitCode.DIRECTORY_UNUSABLE
    assert working_directory() == tmp_path
