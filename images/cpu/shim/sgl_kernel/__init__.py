"""Names of SGLang's compiled kernels, for a CPU that has no build of them.

SGLang imports from ``sgl_kernel`` while it loads, but on a CPU without AMX it computes with plain PyTorch and calls
none of it. Should a version call one after all, the call says so instead of returning something wrong.
"""

from collections.abc import Callable
from typing import NoReturn


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent_kernel(*_arguments: object, **_keywords: object) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} was called, but there is no CPU build of it")

    absent_kernel.__name__ = name
    return absent_kernel
