"""What a checkpoint's own files say, before an hour of loading says it.

Only names, sizes and small JSON files are read, never weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from entrypoint.engine.checkpoint_files import is_content, read_object, size_bytes
from entrypoint.engine.shards import Shards, damage_findings, missing_finding, read_shards
from entrypoint.findings import Finding, Severity

_SETTING: Final = "model.path"

_CONFIG_FILES: Final = ("config.json", "params.json")
"""Transformers' configuration, and Mistral's own."""
_TOKENIZER_FILES: Final = (
    frozenset({"tokenizer.json"}),
    frozenset({"tokenizer.model"}),
    frozenset({"tiktoken.model"}),
    frozenset({"tekken.json"}),
    frozenset({"spiece.model"}),
    frozenset({"sentencepiece.bpe.model"}),
    frozenset({"vocab.json", "merges.txt"}),
    frozenset({"vocab.txt"}),
)
"""Files that make up a tokenizer; any one of the sets is enough."""
_OWN_CHAT_ENCODING: Final = ("DeepseekV3", "DeepseekV4", "KimiK3", "Inkling")
"""Architectures whose chat format SGLang writes by itself (``entrypoints/openai/chat_encoding.py``, 0.5.23)."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the files of a checkpoint say.

    Attributes:
        directory: Where they lie.
        architectures: Names of the model classes, from the configuration.
        model_type: Transformers' short name of the model family.
        quantization: Name of the quantization that the weights are stored in.
        has_tokenizer: Whether a tokenizer's files are there, and are not pointers.
        has_chat_template: Whether a chat template is there.
        shards: The weight files.
        config_problem: Why there is no configuration, if there is none.
        config: The configuration as it stands.
    """

    directory: Path
    architectures: tuple[str, ...]
    model_type: str | None
    quantization: str | None
    has_tokenizer: bool
    has_chat_template: bool
    shards: Shards
    config_problem: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict, hash=False)


def inspect(directory: Path) -> Checkpoint:
    """Return what the files of an existing directory say; whatever cannot be read is a problem in the result."""
    config, problem = _read_config(directory)
    return Checkpoint(
        directory=directory,
        architectures=_texts(config.get("architectures")),
        model_type=_text(config.get("model_type")),
        quantization=_quantization(config),
        has_tokenizer=_has_tokenizer(directory),
        has_chat_template=_has_chat_template(directory),
        shards=read_shards(directory),
        config_problem=problem,
        config=config,
    )


def findings(
    checkpoint: Checkpoint, *, chat_template_given: bool, tokenizer_given: bool = False, downloadable: bool = False
) -> tuple[Finding, ...]:
    """Return what is wrong with a checkpoint.

    Args:
        checkpoint: What its files say.
        chat_template_given: A chat template comes from elsewhere (``--chat-template``).
        tokenizer_given: The tokenizer comes from elsewhere (``--tokenizer-path``).
        downloadable: It is a cached hub model, whose missing files the engine downloads.
    """
    if downloadable and _is_partial(checkpoint):
        return (_partly_downloaded(checkpoint), *damage_findings(checkpoint.directory, checkpoint.shards))
    found = [
        None if checkpoint.config_problem is None else _no_config(checkpoint),
        None if checkpoint.has_tokenizer or tokenizer_given else _no_tokenizer(checkpoint),
        None if chat_template_given or _has_chat_format(checkpoint) else _no_chat_template(checkpoint),
        missing_finding(checkpoint.directory, checkpoint.shards),
        *damage_findings(checkpoint.directory, checkpoint.shards),
    ]
    return tuple(finding for finding in found if finding is not None)


def _is_partial(checkpoint: Checkpoint) -> bool:
    """Return whether files of a cached hub model are still to come."""
    return (
        checkpoint.config_problem is not None
        or not checkpoint.has_tokenizer
        or not checkpoint.shards.expected
        or bool(checkpoint.shards.missing)
    )


def _has_chat_format(checkpoint: Checkpoint) -> bool:
    """Return whether the engine can write a conversation for this model."""
    return checkpoint.has_chat_template or any(
        name.startswith(_OWN_CHAT_ENCODING) for name in checkpoint.architectures[:1]
    )


def _partly_downloaded(checkpoint: Checkpoint) -> Finding:
    """Note that a cached hub model is not complete."""
    shards = checkpoint.shards
    return Finding(
        "model-not-downloaded",
        Severity.NOTE,
        f"The cached model in {checkpoint.directory} is not complete ({shards.present} of {len(shards.expected)} "
        "weight files); the engine will download the rest.",
        "Download it before the job, or let the start take as long as the download.",
        _SETTING,
    )


def _no_config(checkpoint: Checkpoint) -> Finding:
    """Report a missing or broken configuration."""
    return _error(
        "model-config",
        f"{checkpoint.directory} is no checkpoint that can be served: {checkpoint.config_problem}.",
        "Give the directory that holds config.json beside the weights, or copy the model again.",
    )


def _no_tokenizer(checkpoint: Checkpoint) -> Finding:
    """Report that text cannot become tokens."""
    return _error(
        "model-tokenizer",
        f"{checkpoint.directory} holds no tokenizer (tokenizer.json, tokenizer.model, vocabulary), or only a Git LFS "
        "pointer to one.",
        "Copy the tokenizer's files there, or name another place with tokenizer-path in [engine.args].",
    )


def _no_chat_template(checkpoint: Checkpoint) -> Finding:
    """Report that conversations cannot become prompts."""
    return _error(
        "model-chat-template",
        f"{checkpoint.directory} holds no chat template, so that chat completions would fail.",
        "Set chat-template in [engine.args] to a template file, or serve the instruct variant of the model.",
    )


def _error(rule: str, message: str, remedy: str) -> Finding:
    """Return an error of the configuration: which model is served is a setting."""
    return Finding(rule, Severity.ERROR, message, remedy, _SETTING)


def _read_config(directory: Path) -> tuple[Mapping[str, Any], str | None]:
    """Return the configuration, or an empty one and what is wrong with it."""
    name = next((name for name in _CONFIG_FILES if size_bytes(directory / name) is not None), None)
    if name is None:
        return {}, "it has no config.json"
    try:
        return read_object(directory / name), None
    except (OSError, ValueError) as error:
        return {}, f"its {name} cannot be read ({error})"


def _quantization(config: Mapping[str, Any]) -> str | None:
    """Return the name of the stored quantization; models with several towers keep it with the text model's."""
    text_config = config.get("text_config")
    for holder in (config, text_config if isinstance(text_config, dict) else {}):
        for key in ("quantization_config", "compression_config"):
            described = holder.get(key)
            if isinstance(described, dict):
                return _text(described.get("quant_method"))
    return None


def _has_tokenizer(directory: Path) -> bool:
    """Return whether all files of one kind of tokenizer are there."""
    return any(all(is_content(directory / name) for name in names) for names in _TOKENIZER_FILES)


def _has_chat_template(directory: Path) -> bool:
    """Return whether a chat template is there, in a file of its own or with the tokenizer."""
    if any(is_content(directory / name) for name in ("chat_template.jinja", "chat_template.json")):
        return True
    try:
        return bool(read_object(directory / "tokenizer_config.json").get("chat_template"))
    except (OSError, ValueError):
        return False  # the engine could not read it either


def _text(value: object) -> str | None:
    """Return a value of a configuration if it is text."""
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list in a configuration."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
