"""A stand-in for AMD's aiter of August 2026: its builds, its locks and its words, without a GPU, ROCm or torch.

Put the directory above this package on PYTHONPATH, and set AITER_JIT_DIR, since without it the package builds into
itself. What each part follows, as found in aiter's own code:

- ``import aiter`` asks for a GPU and fails without one, unless AITER_AOT_IMPORT or AITER_TRITON_ONLY is set; it alone
  makes the logger ``aiter`` speak (aiter/__init__.py). Whoever imports ``jit.core`` by itself hears errors only.
- ``jit/core.py``: where modules live (AITER_JIT_DIR), what builds them, and what is printed then.
- ``jit/utils/file_baton.py``: the locks of July 2026, with process id and host.
- ``csrc/cpp_itfs/utils.py``, beside this package: template operators below AITER_ROOT_DIR.
- The operators here build what they need on their first call: a module, a variant that is named by the call's
  arguments, or a template.

Builds are fakes. ``jit/utils/switches.py`` has the variables that make them long, fail, lie, hang or crash.
"""

import logging
import os
from collections.abc import Callable

from .jit.utils import switches

logger = logging.getLogger("aiter")
if not logger.handlers:
    _handler = logging.StreamHandler()
    _handler.setFormatter(logging.Formatter("[aiter] %(message)s"))
    logger.addHandler(_handler)
    logger.setLevel(os.environ.get("AITER_LOG_LEVEL", "INFO"))
    logger.propagate = False

if switches.without_gpu() and not (os.environ.get("AITER_AOT_IMPORT") or os.environ.get("AITER_TRITON_ONLY")):
    raise RuntimeError("Get GPU arch from rocminfo failed: no GPU")

MODULE_OF = {
    "rms_norm": "module_rmsnorm_quant",
    "silu_and_mul": "module_activation",
    "greedy_sample": "module_sample",
    "dynamic_per_tensor_quant": "module_quant",
    "moe_sorting": "module_moe_sorting_opus",
}
TEMPLATES = {"top_k_renorm": "top_k_renorm_probs", "top_p_renorm": "top_p_renorm_probs", "paged_attention": "pa"}


def __getattr__(name: str) -> Callable[..., None]:
    from csrc.cpp_itfs.utils import compile_template_op

    from .jit.core import call_module

    if name in MODULE_OF:
        return lambda *_, **__: call_module(MODULE_OF[name])
    if name in TEMPLATES:
        return lambda *_, **arguments: compile_template_op(TEMPLATES[name], **arguments)
    raise AttributeError(f"module 'aiter' has no attribute '{name}'")


def flash_attn_varlen_func(*_: object, dtype: str = "bf16", causal: bool = False) -> None:
    from .jit.core import call_module

    call_module("module_mha_varlen_fwd", variant=f"mha_varlen_fwd_{dtype}_{'mask' if causal else 'nmask'}")
