"""Kinds of model: which of an engine's kernels a model needs, by its configuration."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")


class ModelKind(StrEnum):
    """What a model's layers compute with."""

    DENSE = "dense"
    """Attention over pairs of keys and values, and one feed-forward layer for all tokens."""
    MOE = "moe"
    """Experts that tokens are dealt out to."""
    MLA = "mla"
    """Attention over a latent."""
    GPT_OSS = "gpt-oss"
    """Attention with sinks, and experts in MXFP4."""


def model_kinds(config: Mapping[str, Any]) -> frozenset[ModelKind]:
    """Return the kinds that a checkpoint's config.json shows; empty where it shows none.

    Args:
        config: The checkpoint's config.json.
    """
    nested = config.get("text_config")
    text = {**config, **(nested if isinstance(nested, dict) else {})}
    if not text.get("num_hidden_layers"):
        return frozenset()
    if text.get("model_type") == "gpt_oss":
        return frozenset({ModelKind.GPT_OSS})
    attention = ModelKind.MLA if text.get("kv_lora_rank") else ModelKind.DENSE
    experts = {ModelKind.MOE} if any(text.get(name) for name in _EXPERTS) else set()
    return frozenset({attention, *experts})
