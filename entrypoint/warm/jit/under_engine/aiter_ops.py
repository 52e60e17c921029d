"""Representative calls of aiter's operators: variants and template operators can be built by no name.

Runs under the engine's Python, on a GPU. Shapes are small and only choose the variant. A function that this release of
aiter does not have is not implemented, and no failure: names come
and go (SGLang 0.5.23's call sites; aiter of August 2026; never run on an MI300A).
"""

from collections.abc import Callable
from typing import Any

import aiter  # noqa: A004  # the library, not the function
import torch

TOKENS = 4
HIDDEN = 4096


def _operator(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(aiter, name, None)
    if found is None:
        raise NotImplementedError(f"this aiter has no {name}")
    return found


def _random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float32, device="cuda").to(dtype)


def rms_norm() -> None:
    """Build the norms of every layer."""
    x, weight = _random(TOKENS, HIDDEN), _random(HIDDEN)
    _operator("rmsnorm2d_fwd")(x, weight, 1e-6)
    out, residual = torch.empty_like(x), torch.empty_like(x)
    _operator("rmsnorm2d_fwd_with_add")(out, x, _random(TOKENS, HIDDEN), residual, weight, 1e-6)


def layer_norm() -> None:
    """Build the norm of vision towers and of sparse attention's indexer."""
    _operator("layernorm2d_fwd")(_random(TOKENS, HIDDEN), _random(HIDDEN), _random(HIDDEN), 1e-6)


def activation() -> None:
    """Build the gate of every feed-forward layer."""
    _operator("silu_and_mul")(_random(TOKENS, HIDDEN), _random(TOKENS, 2 * HIDDEN))


def greedy_sample() -> None:
    """Build the sampler of temperature zero."""
    out = torch.empty(TOKENS, dtype=torch.int32, device="cuda")
    _operator("greedy_sample")(out, _random(TOKENS, HIDDEN, dtype=torch.float32))


def top_p_sample() -> None:
    """Build the sampling template operators, which are never prebuilt."""
    if not hasattr(torch.ops.aiter, "top_k_renorm_probs"):
        raise NotImplementedError("this aiter has no sampling operators")
    probabilities = torch.softmax(_random(TOKENS, HIDDEN, dtype=torch.float32), -1)
    torch.ops.aiter.top_k_renorm_probs(probabilities, None, 20)
    torch.ops.aiter.top_p_renorm_probs(probabilities, None, 0.9)


def tensor_quant() -> None:
    """Build the quantisation of activations to FP8."""
    out = torch.empty(TOKENS, HIDDEN, dtype=torch.float8_e4m3fnuz, device="cuda")
    scale = torch.empty(1, dtype=torch.float32, device="cuda")
    _operator("dynamic_per_tensor_quant")(out, _random(TOKENS, HIDDEN), scale)


def token_quant() -> None:
    """Build the quantisation of activations to FP8, with a scale for each token."""
    out = torch.empty(TOKENS, HIDDEN, dtype=torch.float8_e4m3fnuz, device="cuda")
    scales = torch.empty(TOKENS, 1, dtype=torch.float32, device="cuda")
    _operator("dynamic_per_token_scaled_quant")(out, _random(TOKENS, HIDDEN), scales)


def moe_sorting() -> None:
    """Build what deals tokens out to experts."""
    ids = torch.randint(0, 64, (TOKENS, 8), dtype=torch.int32, device="cuda")
    weights = _random(TOKENS, 8, dtype=torch.float32)
    _sorting()(ids, weights, 64, HIDDEN, torch.bfloat16)


def _sorting() -> Callable[..., Any]:
    try:
        from aiter.fused_moe import moe_sorting as found
    except ImportError as error:
        raise NotImplementedError("this aiter has no moe_sorting") from error
    sorting: Callable[..., Any] = found
    return sorting


def topk_softmax() -> None:
    """Build the router of mixtures of experts."""
    weights = torch.empty(TOKENS, 8, dtype=torch.float32, device="cuda")
    ids, rows = (torch.empty(TOKENS, 8, dtype=torch.int32, device="cuda") for _ in range(2))
    _operator("topk_softmax")(weights, ids, rows, _random(TOKENS, 64, dtype=torch.float32), True)


def attention() -> None:
    """Build the attention of a prefill over sequences of different lengths."""
    q, k, v = (_random(TOKENS, 8, 128) for _ in range(3))
    starts = torch.tensor([0, TOKENS], dtype=torch.int32, device="cuda")
    _operator("flash_attn_varlen_func")(q, k, v, starts, starts, TOKENS, TOKENS, causal=True)
