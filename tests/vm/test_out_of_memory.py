"""Real kills at memory limits of version 2, in a machine that has no other: they are counted, and told for certain."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from parts.death import assert_told_as_out_of_memory
from parts.machine import BOOT_S, reason_against, run_in_machine

pytestmark = [pytest.mark.vm, pytest.mark.timeout(2 * BOOT_S)]
ROOT = Path(__file__).resolve().parents[2]
LIMIT = "64 MiB"
GROUPS = {"limit": "/limit", "limit above": "/above", "together": "/together"}
"""The group that has the limit, by scene."""
Told = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def told() -> Told:
    """What was told of each scene."""
    return {line["scene"]: line for line in lines_of("kills.py", "entrypoint")}


@pytest.fixture(scope="module")
def reports() -> Told:
    """The report of each run, by who took the memory."""
    names = [f"tests/{file.name}" for file in (ROOT / "tests").glob("*.py")]
    lines = lines_of("runs.py", "entrypoint", "tests/fake_site", "tests/parts", *names)
    return {line["who"]: line["report"] for line in lines}


def lines_of(program: str, *names: str) -> list[Mapping[str, Any]]:
    """Return what a program beside this file prints in the machine, where it finds files of this project."""
    if reason := reason_against():
        pytest.skip(reason)
    files = {Path(name).name: ROOT / name for name in names}
    outcome = run_in_machine(Path(__file__).with_name(program).read_text(), files)
    assert outcome.status == 0, outcome.printed
    return [json.loads(line) for line in outcome.printed.splitlines()]


@pytest.mark.parametrize("scene", GROUPS)
def test_a_kill_is_told_for_certain_with_the_group_that_has_the_limit(told: Told, scene: str):
    assert_told_as_out_of_memory(told[scene], group=GROUPS[scene], limit=LIMIT)


def test_a_kill_counts_once_although_every_group_above_counts_it_as_well(told: Told):
    assert told["limit"]["group_kills"] == 1
    assert told["limit above"]["group_kills"] == 1
    assert told["limit"]["bystander"] is None


def test_where_a_group_dies_as_a_whole_every_process_of_it_counts(told: Told):
    """The one that was chosen counts twice: as the victim, and as a member of its group (Linux 6.1)."""
    assert told["together"]["bystander"] == -9
    assert told["together"]["group_kills"] == 3
    assert told["together"]["node_kills"] == 3


def test_a_kill_by_somebody_else_is_not_told_as_one_of_the_kernel(told: Told):
    assert told["a kill"]["group_kills"] == 0
    assert told["a kill"]["cause"] != "memory"


@pytest.mark.parametrize("who", ["main", "scheduler"])
def test_a_whole_run_tells_of_the_kernels_kill(reports: Told, who: str):
    assert_told_as_out_of_memory(reports[who], group=f"/{who}", limit="256 MiB")
