"""The check of the node: what is read, in bounded time, and what of the plan it is held against."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from node_trees import mi300a

from entrypoint.findings import Finding
from entrypoint.node.slurm import SlurmStep
from entrypoint.outcome import ExitCode
from entrypoint.plan.plan import Plan
from entrypoint.run import node_check
from entrypoint.run.node_check import node_findings

Planned = Callable[..., Plan]


def looked(plan: Plan, root: Path) -> dict[str, Finding]:
    return {finding.rule: finding for finding in asyncio.run(node_findings(plan, {}, root))}


def in_step(plan: Plan, *, ends_at: int, cluster: str = "") -> Plan:
    step = SlurmStep(7, "0", 0, "nid1", node_rank=0, process_id=0, nodes_in_step=1, job_end_unix_s=ends_at)
    return replace(plan, node=replace(plan.node, step=step, environ={"SLURM_CLUSTER_NAME": cluster}))


def test_the_models_weights_are_held_against_the_memory_of_the_node(
    planned: Planned, fake_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan = planned(model={"path": str(fake_model)})
    assert "memory-short" not in looked(plan, mi300a(tmp_path / "root"))
    with (fake_model / "model.safetensors").open("r+b") as weights:
        weights.truncate(600 << 30)  # a file of holes
    assert "600.0 GiB" in looked(plan, tmp_path / "root")["memory-short"].message
    monkeypatch.undo()


def test_a_job_that_is_about_to_end_is_told(planned: Planned, tmp_path: Path):
    found = looked(in_step(planned(), ends_at=1000), mi300a(tmp_path))
    assert "The job ends in" in found["job-ends-soon"].message


def test_the_cluster_that_slurm_names_knows_its_file_systems(planned: Planned, tmp_path: Path):
    plan = in_step(planned(), ends_at=1 << 40, cluster="beverin")
    site = node_check._site(plan)
    assert site is not None
    assert site.name == "beverin"
    assert node_check._site(in_step(planned(), ends_at=1 << 40, cluster="elsewhere")) is None
    assert node_check._site(planned()) is None
    named = planned(site={"name": "beverin"})
    assert node_check._site(named) == site
    assert "gpus-missing" not in looked(named, mi300a(tmp_path))


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every look at a link hang, as on a network file system whose server is gone."""
    released = threading.Event()
    real = os.path.realpath

    def hang(path: str | Path, **how: bool) -> str:
        if "hung" in str(path):
            released.wait(60)
        return real(path, **how)

    monkeypatch.setattr(os.path, "realpath", hang)
    monkeypatch.setattr(node_check, "LOOK_S", 0.2)
    yield
    released.set()


@pytest.mark.usefixtures("hanging")
def test_a_file_system_that_hangs_is_named_in_bounded_time(planned: Planned, tmp_path: Path):
    plan = planned(caches={"shared": str(tmp_path / "hung"), "local": str(tmp_path / "local")})
    finding = looked(plan, mi300a(tmp_path / "root"))["filesystem-hangs"]
    assert str(tmp_path / "hung") in finding.message
    assert finding.setting == "caches.shared"
    assert finding.code is ExitCode.RETRY_ELSEWHERE


def test_a_file_system_that_answers_is_not_named(planned: Planned, tmp_path: Path):
    assert "filesystem-hangs" not in looked(planned(), mi300a(tmp_path))


def test_caches_in_memory_are_added_up_and_files_that_vanish_meanwhile_are_none(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kernel.so").write_bytes(b"x" * 8192)
    (tmp_path / "a" / "gone").symlink_to("nowhere")
    assert node_check._size_bytes([tmp_path / "a", tmp_path / "missing"]) >= 8192
