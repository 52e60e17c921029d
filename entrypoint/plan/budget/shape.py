"""A model's shape: what its configuration and the sizes of its files say about memory.

How much of a token is kept per layer follows from the kind of attention: pairs of keys and values (multi-head and
grouped-query), one latent (MLA), or nothing but a state per request (linear attention, mamba).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from entrypoint.plan.model_kind import ModelKind, model_kinds

STATE_BYTES = 4
"""Bytes per number of a linear layer's state: float32, unless SGLANG_MAMBA_SSM_DTYPE says bfloat16 (0.5.23)."""
INDEX_SCALE_BYTES = 4
"""Bytes of the scale that goes with a token's key of a sparse attention's index, which is kept in 8 bits."""
BYTES_OF_DTYPE = {"float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "bf16": 2, "float": 4}
BYTES_OF_KV_DTYPE = {**BYTES_OF_DTYPE, "fp8_e4m3": 1, "fp8_e5m2": 1, "mxfp8": 1}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a checkpoint says about memory.

    Attributes:
        layers: All layers.
        caching_layers: Those that keep something of every token.
        pair_values: Numbers of keys and values per token and caching layer, over all heads; 0 with a latent.
        kv_heads: Heads that those belong to; devices share them as far as they go.
        latent_values: Numbers of the latent per token and caching layer, on every device; 0 with pairs.
        index_bytes: Bytes of a sparse attention's index per token and caching layer, on every device.
        state_bytes: Bytes of all linear layers' states per request, over all devices; 0 without such layers.
        dtype_bytes: Bytes per number where the KV cache has the model's own type.
        weights_bytes: All weights; None where the files are not known.
        stage_bytes: Weights of each stage as measured, by number of stages.
        context_tokens: The model's own limit; None where it names none.
        windowed: Some layers see a window only: the pool is then larger than is said here.
        kinds: What its layers compute with.
    """

    layers: int
    caching_layers: int
    pair_values: int
    kv_heads: int
    latent_values: int
    index_bytes: int
    state_bytes: int
    dtype_bytes: int
    weights_bytes: int | None
    stage_bytes: Mapping[int, tuple[int, ...]]
    context_tokens: int | None
    windowed: bool = False
    kinds: frozenset[ModelKind] = frozenset()

    def heaviest_stage_bytes(self, stages: int) -> int | None:
        """Return the weights of the heaviest of some pipeline stages; None where they are not known.

        Args:
            stages: Into how many the layers are cut.
        """
        measured = self.stage_bytes.get(stages)
        if measured:
            return max(measured)
        if self.stage_bytes:  # what loading makes of the files is known for another number: scale that
            parts = self.stage_bytes[max(self.stage_bytes)]
            return sum(parts) * _layers_of_largest(self.layers, stages) // self.layers
        if self.weights_bytes is None:
            return None
        return self.weights_bytes * _layers_of_largest(self.layers, stages) // self.layers

    def token_bytes(self, *, stages: int, devices: int, kv_dtype: str) -> int:
        """Return the bytes that one token takes in the KV pool of one device of the fullest stage.

        Args:
            stages: Pipeline stages.
            devices: Devices that share each layer.
            kv_dtype: The engine's --kv-cache-dtype; anything unknown counts as the model's own type.
        """
        layers = _layers_of_largest(self.caching_layers, stages)
        value_bytes = BYTES_OF_KV_DTYPE.get(kv_dtype, self.dtype_bytes)
        pairs = self.pair_values // max(1, min(devices, self.kv_heads))
        return layers * ((pairs + self.latent_values) * value_bytes + self.index_bytes)

    def slot_bytes(self, *, stages: int, devices: int) -> int:
        """Return the bytes of one request's states on one device."""
        return self.state_bytes // (stages * devices)


def _layers_of_largest(layers: int, stages: int) -> int:
    return -(-layers // stages)


def shape_of(
    config: Mapping[str, Any],
    weights_bytes: int | None,
    stage_bytes: Mapping[int, tuple[int, ...]] | None = None,
) -> ModelShape | None:
    """Return the shape that a configuration describes; None where it is none that this understands.

    Args:
        config: The checkpoint's config.json.
        weights_bytes: Size of its weight files.
        stage_bytes: Weights of each stage, where they were measured.
    """
    text = {**config, **_table(config.get("text_config"))}
    layers, heads = _count(text, "num_hidden_layers"), _count(text, "num_attention_heads")
    hidden = _count(text, "hidden_size")
    if not layers or not heads:
        return None
    kinds = text.get("layer_types")
    caching = _caching_layers(text, layers, kinds if isinstance(kinds, list) else [])
    rank = _count(text, "kv_lora_rank")
    kv_heads = _count(text, "num_key_value_heads") or heads
    head = _count(text, "head_dim") or hidden // heads
    if not caching or not (rank or head):
        return None  # nothing is kept of a token: no pool of tokens describes it
    index = _count(text, "index_head_dim")
    return ModelShape(
        layers=layers,
        caching_layers=caching,
        pair_values=0 if rank else 2 * kv_heads * head,
        kv_heads=kv_heads,
        latent_values=rank + _count(text, "qk_rope_head_dim") if rank else 0,
        index_bytes=index + INDEX_SCALE_BYTES if index else 0,
        state_bytes=(layers - caching) * _state_bytes(text),
        dtype_bytes=BYTES_OF_DTYPE.get(str(text.get("dtype") or text.get("torch_dtype")), 2),
        weights_bytes=weights_bytes,
        stage_bytes=stage_bytes or {},
        context_tokens=_count(text, "max_position_embeddings") or None,
        windowed=isinstance(kinds, list) and "sliding_attention" in kinds,
        kinds=model_kinds(config),
    )


def _caching_layers(text: Mapping[str, Any], layers: int, kinds: list[Any]) -> int:
    """Return how many layers keep something of every token; the others are linear."""
    if kinds:
        return sum(kind != "linear_attention" for kind in kinds)
    every = _count(text, "full_attention_interval")
    return layers // every if every and _count(text, "linear_num_value_heads") else layers


def _state_bytes(text: Mapping[str, Any]) -> int:
    """Return the bytes of one linear layer's state: its matrix, and the last inputs of its convolution."""
    values, keys = _count(text, "linear_num_value_heads"), _count(text, "linear_num_key_heads")
    value, key = _count(text, "linear_value_head_dim"), _count(text, "linear_key_head_dim")
    kernel = _count(text, "linear_conv_kernel_dim")
    matrix = values * value * key * STATE_BYTES
    convolution = (2 * keys * key + values * value) * max(0, kernel - 1) * BYTES_OF_DTYPE["bfloat16"]
    return matrix + convolution


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(text: Mapping[str, Any], name: str) -> int:
    value = text.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
