"""A model's shape, from configurations of each kind of attention."""

from typing import Any

import pytest

from entrypoint.plan.budget.shape import ModelShape, shape_of

GQA = {
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "dtype": "bfloat16",
    "max_position_embeddings": 65536,
}
MLA = {
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
LINEAR = {
    "linear_num_value_heads": 48,
    "linear_num_key_heads": 16,
    "linear_value_head_dim": 128,
    "linear_key_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
HYBRID = {**GQA, "num_hidden_layers": 64, "head_dim": 256, "num_key_value_heads": 4, **LINEAR}


def shape(config: dict[str, Any], weights_bytes: int | None = None) -> ModelShape:
    made = shape_of(config, weights_bytes)
    assert made is not None
    return made


def token_bytes(config: dict[str, Any], *, stages: int = 1, devices: int = 4, kv_dtype: str = "auto") -> int:
    return shape(config).token_bytes(stages=stages, devices=devices, kv_dtype=kv_dtype)


def test_grouped_heads_are_shared_by_devices_as_far_as_they_go():
    assert token_bytes(GQA, devices=1) == 80 * 2 * 8 * 128 * 2
    assert token_bytes(GQA, devices=4) == 80 * 2 * 2 * 128 * 2
    assert token_bytes(GQA, devices=16) == token_bytes(GQA, devices=8)


def test_a_latent_lies_on_every_device():
    assert token_bytes(MLA, devices=1) == token_bytes(MLA, devices=4) == 61 * 576 * 2


def test_an_index_of_sparse_attention_adds_eight_bits_and_a_scale():
    assert token_bytes({**MLA, "index_head_dim": 128}, kv_dtype="fp8_e4m3") == 61 * (576 + 132)


@pytest.mark.parametrize(("kv_dtype", "factor"), [("fp8_e4m3", 0.5), ("bfloat16", 1), ("auto", 1), ("unheard-of", 1)])
def test_the_type_of_the_cache_counts(kv_dtype: str, factor: float):
    assert token_bytes(GQA, kv_dtype=kv_dtype) == factor * token_bytes(GQA)


def test_a_float32_model_keeps_float32():
    assert token_bytes({**GQA, "dtype": "float32"}) == 2 * token_bytes(GQA)


def test_the_fullest_stage_counts():
    assert token_bytes(MLA, stages=4) == 16 * 576 * 2


@pytest.mark.parametrize(
    "layers",
    [
        {"full_attention_interval": 4},
        {"layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16},
    ],
)
def test_linear_layers_keep_nothing_of_a_token_and_a_state_per_request(layers: dict[str, Any]):
    hybrid = shape({**HYBRID, **layers})
    assert hybrid.caching_layers == 16
    assert hybrid.state_bytes == 48 * (48 * 128 * 128 * 4 + (2 * 16 * 128 + 48 * 128) * 3 * 2)
    assert hybrid.slot_bytes(stages=1, devices=4) == hybrid.state_bytes // 4


def test_a_plain_model_has_no_states():
    assert shape(GQA).state_bytes == 0


def test_layers_with_a_window_are_said():
    assert shape({**GQA, "layer_types": ["sliding_attention", "full_attention"] * 40}).windowed
    assert not shape(GQA).windowed


def test_a_model_that_sees_is_described_in_its_text_part():
    assert shape({"model_type": "kimi_k25", "vision_config": {}, "text_config": MLA}).layers == 61


def test_weights_of_a_stage_are_its_layers_share():
    assert shape(MLA, 610).heaviest_stage_bytes(1) == 610
    assert shape(MLA, 610).heaviest_stage_bytes(4) == 160
    assert shape(MLA).heaviest_stage_bytes(4) is None


def test_weights_that_were_measured_are_scaled_to_other_cuts():
    made = shape_of(GQA, 1000, {4: (300, 310, 320, 330)})
    assert made is not None
    assert made.heaviest_stage_bytes(4) == 330
    assert made.heaviest_stage_bytes(1) == 1260
    assert made.heaviest_stage_bytes(2) == 630


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"num_hidden_layers": "many"},
        {"num_hidden_layers": 5},
        {"num_hidden_layers": True},
        {"num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 4},
        {**GQA, "layer_types": ["linear_attention"] * 80},
    ],
)
def test_a_configuration_that_keeps_nothing_of_a_token_describes_no_pool(config: dict[str, Any]):
    assert shape_of(config, 1) is None
