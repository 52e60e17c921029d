import json
from pathlib import Path

import pytest

from entrypoint.engine.checkpoint import Checkpoint, findings, inspect
from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4976698672\n"
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Make a complete checkpoint of two shards."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for name in names:
        (tmp_path / name).write_bytes(b"w" * 100)
    weight_map = {"a": names[0], "b": names[1], "c": names[0]}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return tmp_path


def found_in(directory: Path, **given: bool) -> tuple[Finding, ...]:
    return findings(inspect(directory), **{"chat_template_given": False, **given})


def only(found: tuple[Finding, ...]) -> Finding:
    [finding] = found
    return finding


def test_a_complete_checkpoint_has_no_findings(directory: Path):
    assert found_in(directory) == ()


def test_a_complete_checkpoint_is_described(directory: Path):
    checkpoint = inspect(directory)
    assert (checkpoint.architectures, checkpoint.model_type) == (("Qwen3ForCausalLM",), "qwen3")
    assert (checkpoint.has_tokenizer, checkpoint.has_chat_template, checkpoint.quantization) == (True, True, None)
    assert (checkpoint.shards.present, len(checkpoint.shards.expected), checkpoint.shards.total_bytes) == (2, 2, 200)


@pytest.mark.parametrize(
    ("described", "name"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"text_config": {"quantization_config": {"quant_method": "compressed-tensors"}}}, "compressed-tensors"),
        ({"compression_config": {"quant_method": "quark"}}, "quark"),
        ({"quantization_config": {}}, None),
        ({"quantization_config": None}, None),
        ({"text_config": []}, None),
    ],
)
def test_the_stored_quantization_is_read(directory: Path, described: dict[str, object], name: str | None):
    (directory / "config.json").write_text(json.dumps(CONFIG | described))
    assert inspect(directory).quantization == name


def test_a_missing_configuration_is_an_error(directory: Path):
    (directory / "config.json").unlink()
    finding = only(found_in(directory))
    assert (finding.rule, finding.severity, finding.code) == ("model-config", Severity.ERROR, ExitCode.CONFIGURATION)
    assert "no config.json" in finding.message


@pytest.mark.parametrize("content", ["", "{", "[]", POINTER, "[" * 100_000])
def test_a_broken_configuration_is_an_error(directory: Path, content: str):
    (directory / "config.json").write_text(content)
    finding = only(found_in(directory))
    assert finding.rule == "model-config"
    assert "config.json cannot be read" in finding.message


def test_a_configuration_of_odd_types_is_read_as_far_as_it_goes(directory: Path):
    (directory / "config.json").write_text(json.dumps({"architectures": "Qwen", "model_type": 3}))
    checkpoint = inspect(directory)
    assert (checkpoint.architectures, checkpoint.model_type) == ((), None)


def test_the_configuration_of_mistral_is_one_too(directory: Path):
    (directory / "config.json").rename(directory / "params.json")
    assert found_in(directory) == ()


@pytest.mark.parametrize(
    "names", [("tokenizer.model",), ("tiktoken.model",), ("tekken.json",), ("vocab.json", "merges.txt"), ("vocab.txt",)]
)
def test_other_kinds_of_tokenizers_count(directory: Path, names: tuple[str, ...]):
    (directory / "tokenizer.json").unlink()
    for name in names:
        (directory / name).write_text("x")
    assert found_in(directory) == ()


def test_a_missing_tokenizer_is_an_error(directory: Path):
    (directory / "tokenizer.json").unlink()
    (directory / "tokenizer_config.json").write_text("{}")
    (directory / "vocab.json").write_text("{}")  # without merges.txt it is half a tokenizer
    assert only(found_in(directory)).rule == "model-tokenizer"


def test_a_pointer_is_no_tokenizer(directory: Path):
    (directory / "tokenizer.json").write_text(POINTER)
    assert only(found_in(directory)).rule == "model-tokenizer"


def test_a_tokenizer_from_elsewhere_is_enough(directory: Path):
    (directory / "tokenizer.json").unlink()
    assert found_in(directory, tokenizer_given=True) == ()


def test_a_missing_chat_template_is_an_error(directory: Path):
    (directory / "chat_template.jinja").unlink()
    finding = only(found_in(directory))
    assert (finding.rule, finding.severity) == ("model-chat-template", Severity.ERROR)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat_template.json", '{"chat_template": "x"}'),
        ("tokenizer_config.json", '{"chat_template": "x"}'),
        ("tokenizer_config.json", '{"chat_template": [{"name": "default", "template": "x"}]}'),
    ],
)
def test_a_chat_template_may_lie_elsewhere(directory: Path, name: str, content: str):
    (directory / "chat_template.jinja").unlink()
    (directory / name).write_text(content)
    assert found_in(directory) == ()


@pytest.mark.parametrize("content", ['{"chat_template": null}', '{"chat_template": ""}', "{}", "{", ""])
def test_a_tokenizer_configuration_without_a_chat_template_does_not_count(directory: Path, content: str):
    (directory / "chat_template.jinja").unlink()
    (directory / "tokenizer_config.json").write_text(content)
    assert only(found_in(directory)).rule == "model-chat-template"


def test_a_chat_template_from_elsewhere_is_enough(directory: Path):
    (directory / "chat_template.jinja").unlink()
    assert found_in(directory, chat_template_given=True) == ()


@pytest.mark.parametrize("name", ["DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM", "KimiK3ForConditionalGeneration"])
def test_a_model_whose_chat_format_the_engine_writes_itself_needs_no_template(directory: Path, name: str):
    (directory / "chat_template.jinja").unlink()
    (directory / "config.json").write_text(json.dumps({"architectures": [name]}))
    assert found_in(directory) == ()


def test_a_missing_shard_is_named(directory: Path):
    (directory / "model-00002-of-00002.safetensors").unlink()
    finding = only(found_in(directory))
    assert finding.rule == "model-shards"
    assert "1 of 2 weight files are missing" in finding.message
    assert "model-00002-of-00002.safetensors" in finding.message


def test_a_link_to_nothing_is_a_missing_shard(directory: Path):
    shard = directory / "model-00002-of-00002.safetensors"
    shard.unlink()
    shard.symlink_to("../blobs/never-downloaded")
    assert inspect(directory).shards.missing == (shard.name,)


def test_many_missing_shards_are_counted_and_a_few_named(directory: Path):
    names = {str(number): f"model-{number:05}.safetensors" for number in range(200)}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    finding = only(found_in(directory))
    assert "200 of 200" in finding.message
    assert "and 197 more" in finding.message


def test_an_empty_shard_is_named(directory: Path):
    (directory / "model-00001-of-00002.safetensors").write_bytes(b"")
    finding = only(found_in(directory))
    assert finding.rule == "model-shards"
    assert "zero bytes" in finding.message
    assert "model-00001-of-00002.safetensors" in finding.message


def test_a_pointer_instead_of_weights_is_named(directory: Path):
    (directory / "model-00001-of-00002.safetensors").write_text(POINTER)
    finding = only(found_in(directory))
    assert "Git LFS pointers" in finding.message
    assert "git lfs pull" in finding.remedy


def test_weights_that_begin_like_a_pointer_and_are_large_are_weights(directory: Path):
    (directory / "model-00001-of-00002.safetensors").write_text(POINTER + "w" * 2000)
    assert found_in(directory) == ()


def test_a_file_that_may_not_be_read_is_left_to_the_engine_to_report(directory: Path, monkeypatch: pytest.MonkeyPatch):
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", denied)
        checkpoint = inspect(directory)
    assert checkpoint.shards.pointers == ()
    assert checkpoint.config_problem is not None
    assert "Permission denied" in checkpoint.config_problem


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": []}', POINTER])
def test_a_broken_index_is_an_error(directory: Path, content: str):
    (directory / "model.safetensors.index.json").write_text(content)
    finding = only(found_in(directory))
    assert finding.rule == "model-shards"
    assert "index.json cannot be read" in finding.message


def test_an_index_may_name_what_no_file_system_can_hold(directory: Path):
    (directory / "model.safetensors.index.json").write_text('{"weight_map": {"a": "x\\u0000y", "b": 3}}')
    assert len(inspect(directory).shards.missing) == 2


def single(directory: Path, name: str) -> None:
    """Replace the shards of a checkpoint by one file without an index."""
    for path in directory.glob("model*"):
        path.unlink()
    (directory / name).write_bytes(b"w" * 10)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "model.gguf"])
def test_weights_in_one_file_need_no_index(directory: Path, name: str):
    single(directory, name)
    assert found_in(directory) == ()
    assert inspect(directory).shards.expected == (name,)


def test_numbered_shards_without_an_index_show_what_is_missing(directory: Path):
    single(directory, "model-00002-of-00003.safetensors")
    assert inspect(directory).shards.missing == (
        "model-00001-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    )


def test_a_file_name_cannot_make_up_millions_of_shards(directory: Path):
    single(directory, "model-1-of-999999999.safetensors")
    assert len(inspect(directory).shards.missing) < 20_000


def test_no_weights_at_all_are_an_error(directory: Path):
    single(directory, "README.md")
    assert "holds no weights" in only(found_in(directory)).message


def test_an_empty_directory_has_all_findings_at_once(tmp_path: Path):
    assert [finding.rule for finding in found_in(tmp_path)] == [
        "model-config",
        "model-tokenizer",
        "model-chat-template",
        "model-shards",
    ]


def test_a_directory_that_vanished_is_like_an_empty_one(tmp_path: Path):
    assert len(found_in(tmp_path / "gone")) == 4


def test_a_cached_hub_model_that_is_not_complete_is_noted_alone(directory: Path):
    (directory / "model-00002-of-00002.safetensors").unlink()
    (directory / "chat_template.jinja").unlink()
    finding = only(found_in(directory, downloadable=True))
    assert (finding.rule, finding.severity) == ("model-not-downloaded", Severity.NOTE)
    assert "1 of 2 weight files" in finding.message


def test_a_cached_hub_model_that_is_complete_is_judged_like_a_directory(directory: Path):
    (directory / "chat_template.jinja").unlink()
    assert only(found_in(directory, downloadable=True)).rule == "model-chat-template"


def test_a_damaged_shard_in_the_cache_is_an_error_although_more_is_to_come(directory: Path):
    (directory / "tokenizer.json").unlink()
    (directory / "model-00001-of-00002.safetensors").write_bytes(b"")
    assert [finding.severity for finding in found_in(directory, downloadable=True)] == [Severity.NOTE, Severity.ERROR]


def test_a_checkpoint_is_plain_frozen_data(directory: Path):
    assert inspect(directory) == inspect(directory)
    assert isinstance(hash(inspect(directory)), int)
    assert isinstance(inspect(directory), Checkpoint)
