"""Rules about the node: each fires on a node that lacks something, and not on the near miss beside it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memory_trees import GIB, apu, in_group, meminfo, write
from node_trees import mi300a

from entrypoint.findings import Finding, Severity
from entrypoint.node.inspection import NodeInspection, inspect
from entrypoint.node.limits import Limits
from entrypoint.node.lustre import Striping
from entrypoint.node.processors import Processors
from entrypoint.plan.caches import CacheDirectory, CacheLayer
from entrypoint.plan.rules.node import EVERY_RULE, judge_node
from entrypoint.plan.rules.on_node import OnNode
from entrypoint.site.reading import read_site

Changes = Mapping[str, Any]
MIB = 1 << 20


def cache(path: str, layer: CacheLayer = CacheLayer.LOCAL, variable: str = "TRITON_CACHE_DIR") -> CacheDirectory:
    return CacheDirectory(variable, Path(path), layer, "", Path(path))


@pytest.fixture
def node(tmp_path: Path) -> NodeInspection:
    """A whole node of four MI300A, on which this task may use everything."""
    whole = inspect({}, mi300a(tmp_path))
    limits = Limits(1 << 20, 256 * GIB, 256 * GIB)
    return replace(whole, processors=Processors(192, 192), limits=limits)


@pytest.fixture
def seen(node: NodeInspection) -> OnNode:
    """A server of one node that lacks nothing."""
    return OnNode(
        node=node,
        on_cpu=False,
        devices=4,
        nodes=1,
        in_step=True,
        seconds_left=86_400,
        load_s=3600,
        weights_bytes=30 * GIB,
        rank_bytes=60 * GIB,
        caches=(cache("/local disk/triton"), cache("/capstor/me/hf", CacheLayer.HUB, "HF_HOME")),
        shared=Path("/capstor/me/caches"),
        in_memory_bytes=0,
        hub=Path("/iopsstor/scratch/me/hub"),
        unread_days=None,
        striping=Striping(16, MIB),
        site=None,
        network_required=True,
    )


def found(seen: OnNode, rule: str) -> tuple[Finding, ...]:
    return tuple(finding for finding in judge_node(seen) if finding.rule == rule)


def test_a_node_that_lacks_nothing_has_no_findings(seen: OnNode):
    assert judge_node(seen) == ()


def of_node(**changes: Any) -> Callable[[OnNode], OnNode]:
    """Return what changes the node that is seen."""
    return lambda seen: replace(seen, node=replace(seen.node, **changes))


def of_run(**changes: Any) -> Callable[[OnNode], OnNode]:
    """Return what changes what is seen beside the node."""
    return lambda seen: replace(seen, **changes)


BEVERIN = read_site("beverin")
BOTH_WAYS = [
    ("cpus-few", of_node(processors=Processors(1, 192)), of_node(processors=Processors(96, 192))),
    ("cpus-few", of_node(processors=Processors(95, 192)), of_node(processors=Processors(1, None))),
    ("gpus-missing", of_node(accelerators=()), of_run(devices=4)),
    ("memory-short", of_run(weights_bytes=491 * GIB), of_run(weights_bytes=489 * GIB)),
    ("memory-short", of_run(weights_bytes=491 * GIB), of_run(weights_bytes=None)),
    ("shm-small", of_node(limits=Limits(9999, 64 * MIB, 0)), of_node(limits=Limits(9999, 8 * GIB, 0))),
    ("open-files-few", of_node(limits=Limits(1024, None, None)), of_node(limits=Limits(4096, None, None))),
    ("job-ends-soon", of_run(seconds_left=3599.0), of_run(seconds_left=3600.0)),
    ("job-ends-soon", of_run(seconds_left=-5.0), of_run(seconds_left=None)),
    ("cache-on-network", of_run(caches=(cache("/ritom/me"),)), of_run(caches=(cache("/ritom/me", CacheLayer.HUB),))),
    ("cache-on-network", of_run(caches=(cache("/capstor/me"),)), of_run(caches=(cache("/tmp/me"),))),
    ("cache-in-memory", of_run(in_memory_bytes=11 * GIB), of_run(in_memory_bytes=10 * GIB)),
    ("cache-transient", of_run(shared=Path("/tmp/caches")), of_run(shared=Path("/ritom/caches"))),
    ("cache-transient", of_run(shared=Path("/root/caches")), of_run(shared=Path("/root/caches"), on_cpu=True)),
    ("device-limit", of_run(rank_bytes=129 * GIB), of_run(rank_bytes=128 * GIB)),
    ("device-limit", of_run(rank_bytes=129 * GIB), of_run(rank_bytes=None)),
    ("partition-other", of_run(site=BEVERIN, partition="mi200"), of_run(site=BEVERIN, partition="mi300")),
    ("partition-other", of_run(site=BEVERIN, partition="mi200"), of_run(partition="mi200")),
    ("account-unset", of_run(site=BEVERIN, in_step=False), of_run(site=BEVERIN, in_step=False, account="a1")),
    ("account-unset", of_run(site=BEVERIN, in_step=False), of_run(site=BEVERIN, in_step=True)),
    ("hub-purged", of_run(site=BEVERIN), of_run(site=BEVERIN, hub=Path("/capstor/me/hub"))),
    ("hub-slow", of_run(site=BEVERIN, hub=Path("/ritom/me/hub")), of_run(site=BEVERIN)),
    ("hub-slow", of_run(site=BEVERIN, hub=Path("/ritom/me/hub")), of_run(hub=Path("/ritom/me/hub"))),
    ("hub-unstriped", of_run(striping=Striping(1, MIB)), of_run(striping=Striping(4, MIB))),
    ("hub-unstriped", of_run(striping=Striping(3, MIB)), of_run(striping=None)),
]


@pytest.mark.parametrize(("rule", "broken", "kept"), BOTH_WAYS)
def test_a_rule_fires_on_a_node_that_lacks_something_and_not_on_the_near_miss(
    seen: OnNode, rule: str, broken: Callable[[OnNode], OnNode], kept: Callable[[OnNode], OnNode]
):
    (finding,) = found(broken(seen), rule)
    assert finding.message.endswith(".")
    assert finding.remedy.endswith(".")
    assert found(kept(seen), rule) == ()


@pytest.mark.parametrize(("unread_days", "severity"), [(11.5, Severity.WARNING), (10.9, Severity.NOTE)])
def test_a_model_that_is_about_to_be_purged_is_a_warning(seen: OnNode, unread_days: float, severity: Severity):
    (finding,) = found(replace(seen, site=BEVERIN, unread_days=unread_days), "hub-purged")
    assert finding.severity is severity


ELSEWHERE = {"gpu-memory-taken", "cgroup-tight", "fabric-missing", "fabric-plugin-missing"}
"""Rules with tests of their own below: what they look at is laid out as a tree."""


def test_every_rule_is_tested_both_ways():
    assert {name for name, _, _ in BOTH_WAYS} | ELSEWHERE == {rule.name for rule in EVERY_RULE}


def test_one_core_of_many_refuses_a_run_and_half_of_them_does_not(seen: OnNode):
    (one,) = found(of_node(processors=Processors(1, 192))(seen), "cpus-few")
    (some,) = found(of_node(processors=Processors(95, 192))(seen), "cpus-few")
    assert (one.severity, some.severity) == (Severity.ERROR, Severity.WARNING)


def test_a_login_node_without_gpus_is_a_note(seen: OnNode):
    (finding,) = found(replace(of_node(accelerators=())(seen), in_step=False), "gpus-missing")
    assert finding.severity is Severity.NOTE


def test_gpu_memory_that_another_job_left_is_named_by_card(tmp_path: Path, seen: OnNode):
    root = mi300a(tmp_path / "taken")
    apu(root, "card2", gtt_total=128 * GIB, gtt_used=3 * GIB)
    taken = replace(seen, node=replace(seen.node, apu_memory=inspect({}, root).apu_memory))
    (finding,) = found(taken, "gpu-memory-taken")
    assert "card2 3.0 GiB" in finding.message
    assert "card1" not in finding.message
    assert found(replace(taken, on_cpu=True), "gpu-memory-taken") == ()


@pytest.mark.parametrize(("limit", "fires"), [(100 * GIB, True), (400 * GIB, False)])
def test_a_group_that_holds_less_than_half_of_the_node_is_named(
    tmp_path: Path, seen: OnNode, limit: int, *, fires: bool
):
    root = mi300a(tmp_path / "tight")
    in_group(root, "self", "0::/job_7/step_0")
    group = root / "sys/fs/cgroup/job_7"
    write(root / "sys/fs/cgroup/cgroup.controllers", "memory\n")
    for directory, most in ((group, str(limit)), (group / "step_0", "max")):
        write(directory / "memory.max", f"{most}\n")
        write(directory / "memory.current", "1000000\n")
        write(directory / "memory.events", "oom_kill 0\n")
        write(directory / "memory.stat", "file 0\ninactive_file 0\nactive_file 0\n")
    tight = replace(seen, node=replace(seen.node, memory=inspect({}, root).memory))
    assert bool(found(tight, "cgroup-tight")) is fires


@pytest.mark.parametrize(("required", "severity"), [(True, Severity.ERROR), (False, Severity.WARNING)])
def test_a_server_on_several_nodes_needs_the_fabric(
    tmp_path: Path, seen: OnNode, severity: Severity, *, required: bool
):
    bare = inspect({}, mi300a(tmp_path / "bare", nics=0))
    without = replace(seen, nodes=2, network_required=required, node=replace(seen.node, fabric=bare.fabric))
    (finding,) = found(without, "fabric-missing")
    assert finding.severity is severity
    assert found(replace(without, nodes=1), "fabric-missing") == ()
    assert found(replace(seen, nodes=2), "fabric-missing") == ()


def test_a_server_on_several_nodes_needs_the_collectives_plugin(tmp_path: Path, seen: OnNode):
    (finding,) = found(replace(seen, nodes=2), "fabric-plugin-missing")
    assert finding.severity is Severity.ERROR
    root = mi300a(tmp_path / "hooked")
    write(root / "opt/cscs/netstack/librccl-net.so", "")
    hooked = replace(seen, nodes=2, node=replace(seen.node, fabric=inspect({}, root).fabric))
    assert found(hooked, "fabric-plugin-missing") == ()


def test_an_engine_on_the_processor_is_told_nothing_of_gpus(tmp_path: Path, seen: OnNode):
    poor = mi300a(tmp_path / "poor", gpus=0, nics=0)
    meminfo(poor, available_kib=20 * GIB >> 10)
    node = replace(inspect({}, poor), processors=Processors(2, 192), limits=Limits(1 << 20, 64 * MIB, 0))
    assert judge_node(replace(seen, node=node, on_cpu=True, weights_bytes=MIB)) == ()
