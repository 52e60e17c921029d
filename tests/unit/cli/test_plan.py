"""``supervise plan``: on how many nodes a model fits, without a GPU, an engine or the model's weights."""

import json
from pathlib import Path
from typing import Any

import pytest

from entrypoint.cli import main


@pytest.fixture
def plan(
    machine: Any,  # noqa: ARG001  # where nothing is set
    no_processes: None,  # noqa: ARG001  # it forbids them
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    """Return what the command prints."""
    monkeypatch.delenv("SUPERVISE_ENGINE__DEVICE")

    def run(*words: str) -> str:
        assert main(["plan", *words]) == 0
        return capsys.readouterr().out

    return run


def test_kimi_is_impossible_on_one_node_not_recommended_on_two_and_possible_on_four(plan: Any):
    rows = {row["nodes"]: row for row in json.loads(plan("--profile", "kimi27", "--format", "json"))["budgets"]}
    assert [rows[nodes]["fit"] for nodes in (1, 2, 4)] == ["impossible", "not recommended", "possible"]
    assert "weights alone" in rows[1]["why"]
    assert "below the floor" in rows[2]["why"]
    assert "More nodes are the remedy" in rows[2]["why"]
    assert all({"floor", "ceiling", "pool_tokens"} <= row.keys() for row in rows.values())


def test_the_table_fits_a_terminal_of_eighty_columns(plan: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = plan("--profile", "kimi27")
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "not recommended" in said
    assert "171 GiB" in said


def test_a_workload_is_held_against_the_pool_and_the_remedy_is_a_number(plan: Any):
    words = ("--workload.conversations", "40", "--workload.largest_prompt_tokens", "60000")
    said = " ".join(plan("--profile", "qwen38", *words).split())
    assert "gives 1.3; above that, raising it buys nothing" in said
    assert "--max-total-tokens 3120000" in said


def test_a_model_of_ones_own_is_read_from_its_files(plan: Any, tmp_path: Path):
    model = tmp_path / "model"
    model.mkdir()
    config = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512, "dtype": "bfloat16"}
    (model / "config.json").write_text(json.dumps(config))
    with (model / "model.safetensors").open("wb") as weights:
        weights.truncate(100 << 30)
    said = json.loads(plan("--model.path", str(model), "--topology.tensor_parallel", "4", "--format", "json"))
    assert said["budgets"][0]["weights_bytes_of_heaviest_stage"] == 100 << 30
    assert str(model) in said["shape_source"]


def test_a_model_of_which_nothing_is_known_is_told_as_that(plan: Any):
    assert "nothing is written down about it" in " ".join(plan("--model.path", "nobody/nothing").split())


def test_the_memory_of_a_node_without_gpus_is_not_taken_for_an_mi300a(plan: Any):
    assert "as assumed" in plan("--profile", "kimi27")
    on_cpu = json.loads(plan("--profile", "tiny", "--model.path", "nobody/nothing", "--format", "json"))
    assert on_cpu["available_source"] == "what this node has available now"
