"""Steps as data: which apply, and what a file of the user's own may say."""

from pathlib import Path

import pytest

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.plan.model_kind import ModelKind, model_kinds
from entrypoint.warm.jit.choice import BUILDER_BYTES, COMPILER_BYTES, Hands, hands
from entrypoint.warm.jit.step import LARGEST_BYTES, Step, learned_steps, own_steps, packaged_steps

GIB = 1 << 30


def names(*kinds: ModelKind) -> set[str]:
    return {step.name for step in packaged_steps(frozenset(kinds))}


def test_every_kind_needs_norms_and_only_experts_need_sorting():
    assert all("norms" in names(kind) for kind in ModelKind)
    assert "expert sorting" in names(ModelKind.MOE)
    assert "expert sorting" not in names(ModelKind.DENSE)


def test_where_no_kind_is_known_everything_is_built():
    assert names() == names(*ModelKind)


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ({"num_hidden_layers": 2}, {ModelKind.DENSE}),
        ({"num_hidden_layers": 2, "num_experts": 8}, {ModelKind.DENSE, ModelKind.MOE}),
        ({"text_config": {"num_hidden_layers": 2, "kv_lora_rank": 512, "n_routed_experts": 8}}, {"mla", "moe"}),
        ({"num_hidden_layers": 2, "model_type": "gpt_oss", "num_local_experts": 32}, {ModelKind.GPT_OSS}),
        ({"num_hidden_layers": 2, "num_experts": None}, {ModelKind.DENSE}),
        ({}, set()),
    ],
)
def test_the_kind_is_read_off_the_configuration(config: dict[str, object], kinds: set[str]):
    assert model_kinds(config) == kinds


def test_a_file_of_steps_is_read(tmp_path: Path):
    (tmp_path / "steps.toml").write_text(
        '[[step]]\nname = "mine"\ncall = "mine.ops:build"\n[[step]]\nname = "b"\nmodule = "module_b"\nof = ["moe"]\n'
    )
    assert own_steps(tmp_path / "steps.toml", frozenset({ModelKind.DENSE})) == (Step("mine", call="mine.ops:build"),)
    assert len(own_steps(tmp_path / "steps.toml", frozenset({ModelKind.MOE}))) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "step"),
        ('[[step]]\nname = "a"', "name either a call or a module"),
        ('[[step]]\nname = "a"\ncall = "m:f"\nmodule = "m"', "name either a call or a module"),
        ('[[step]]\nname = "a"\ncall = "rm -rf"', "step.0.call"),
        ('[[step]]\nname = "a"\nmodule = "../x"', "step.0.module"),
        ('[[step]]\nname = "a"\ncall = "m:f"\nof = ["big"]', "step.0.of"),
        ("[[step", "step"),
        ("#" * (LARGEST_BYTES + 1), "larger than 1 MiB"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_the_place(tmp_path: Path, text: str, reason: str):
    (tmp_path / "steps.toml").write_text(text)
    with pytest.raises(SuperviseError) as caught:
        own_steps(tmp_path / "steps.toml", frozenset())
    assert reason in caught.value.message or text == "[[step"
    assert caught.value.code is ExitCode.CONFIGURATION


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(SuperviseError, match="No such file"):
        own_steps(tmp_path / "none.toml", frozenset())


def test_only_modules_with_a_name_are_learned():
    assert learned_steps(["module_b", "module_a", "module_a", "/root/build/pa_1", "a b"]) == (
        Step.of_module("module_a"),
        Step.of_module("module_b"),
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"steps": 12, "gpus": 4, "cpus": 96, "available_bytes": 480 * GIB}, Hands(4, 24)),
        ({"steps": 2, "gpus": 4, "cpus": 96, "available_bytes": 480 * GIB}, Hands(2, 48)),
        ({"steps": 12, "gpus": 4, "cpus": 96, "available_bytes": 2 * BUILDER_BYTES}, Hands(1, 4)),
        ({"steps": 12, "gpus": 4, "cpus": 96, "available_bytes": COMPILER_BYTES}, Hands(1, 1)),
        ({"steps": 12, "gpus": 0, "cpus": 2, "available_bytes": 64 * GIB}, Hands(1, 2)),
        ({"steps": 12, "gpus": 4, "cpus": 4, "available_bytes": 480 * GIB, "wished": 8}, Hands(8, 1)),
    ],
)
def test_hands_keep_within_gpus_processors_and_memory(given: dict[str, int], wanted: Hands):
    assert hands(given.pop("steps"), **{"wished": None, **given}) == wanted  # type: ignore[arg-type]
