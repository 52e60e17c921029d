"""Let ``import torchvision`` succeed beside a CPU build of torch.

torchvision's wheel on PyPI is built against CUDA. Beside a CPU torch its compiled operators do not load, and the
import fails where it registers fake kernels for two of them. Declaring these two schemas first is enough for SGLang,
which wants torchvision's transforms and image readers only and never calls either operator.

Python runs this module at start, in the engine's child processes as well, since it lies among their packages.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

SUPPRESSION = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class TorchvisionOperators(MetaPathFinder):
    """Declares torchvision's operators at the moment of its first import, then leaves the finding to others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Declare the operators when torchvision is about to be imported.

        Args:
            fullname: Name of the module that is looked for.
            path: Unused.
            target: Unused.

        Returns:
            Always None: the ordinary finders find the module.
        """
        del path, target
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            declare_operators()
        return None


def declare_operators() -> None:
    """Declare the schemas of ``nms`` and ``qnms``; they live as long as the library object does."""
    import torch  # every Python process of the engine runs this module, few need torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(operator + SUPPRESSION)
    _kept.append(library)


_kept: list[object] = []
sys.meta_path.insert(0, TorchvisionOperators())
