"""A plan from a few words: settings as TOML, environment and command line, and a machine that stays the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from entrypoint.engine.flags import FlagTable
from entrypoint.node.facts import NodeFacts
from entrypoint.node.slurm import SlurmStep
from entrypoint.plan.budget.facts import MemoryFacts
from entrypoint.plan.plan import EngineFacts, Plan, make_plan
from entrypoint.settings.layers import load
from entrypoint.settings.schema import Settings
from entrypoint.settings.secrets import read_secrets

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "flags-0.5.23.json"


@pytest.fixture(scope="session")
def table() -> FlagTable:
    """The flags of a real engine."""
    return FlagTable.from_json(RECORDED.read_bytes())


@pytest.fixture
def node(tmp_path: Path) -> NodeFacts:
    return NodeFacts({"PATH": "/usr/bin"}, home=tmp_path / "home", cwd=tmp_path / "work", host_name="nid1", step=None)


@pytest.fixture
def two_nodes(node: NodeFacts) -> NodeFacts:
    step = SlurmStep(
        7, "0", 0, "nid1", node_rank=1, process_id=1, nodes_in_step=2, job_end_unix_s=None, hosts=("nid0", "nid1")
    )
    return replace(node, step=step)


@pytest.fixture
def settings(tmp_path: Path) -> Callable[[str], Settings]:
    """Read settings from TOML."""

    def read(toml: str) -> Settings:
        path = tmp_path / "settings.toml"
        path.write_text(toml)
        return load(
            profile=None, config_files=[path], overrides=(), extra_arguments=(), environ={}, cwd=tmp_path
        ).settings

    return read


@pytest.fixture
def planned(node: NodeFacts, tmp_path: Path) -> Callable[..., Plan]:
    """Make a plan of a local model on one node; ``toml`` is all that is set beside the model and the device.

    The device is a processor, of which the rules for APUs say nothing; one server spans all nodes of a step.
    """

    def plan(
        toml: str = "",
        extra: Sequence[str] = (),
        *,
        environ: Mapping[str, str] | None = None,
        flags: FlagTable | None = None,
        on: NodeFacts = node,
        model: str = "/models/tiny",
        version: str | None = "0.5.23",
        device: str = "cpu",
        memory: MemoryFacts | None = None,
        spans: int | None = None,
    ) -> Plan:
        (tmp_path / "settings.toml").write_text(toml)
        step_nodes = on.step.nodes_in_step if on.step else 1
        spread = [("topology.nodes_per_replica", str(spans or step_nodes))] if step_nodes > 1 else []
        overrides = [("engine.device", device), *spread, *([("model.path", model)] if model else [])]
        resolved = load(
            profile=None,
            config_files=[tmp_path / "settings.toml"],
            overrides=overrides,
            extra_arguments=extra,
            environ={},
            cwd=tmp_path,
        )
        engine = EngineFacts(Path("/opt/venv/bin/python"), version, flags)
        machine = on if environ is None else replace(on, environ=environ)
        return make_plan(
            resolved, machine, engine, read_secrets(resolved.settings, machine.environ), run_name="7.0.0", memory=memory
        )

    return plan
