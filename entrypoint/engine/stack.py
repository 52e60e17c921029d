"""The engine and what it stands on: which build of which image, read from files alone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrypoint.engine.installation import distribution_versions

BUILD_ID: Final = Path("/opt/supervise/build-id")
"""One line that the image's build writes: a digest of the image cannot be known inside of it."""
ROCM_VERSION: Final = Path("/opt/rocm/.info/version")
STACK: Final = ("sglang", "torch", "triton", "aiter", "amd-aiter")
"""Distributions whose compiled code, or whose compilers, end up in caches."""
_LONGEST = 128
_WORD = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class EngineStack:
    """What compiled code depends on.

    Attributes:
        build_id: The image's build; None outside of one.
        distributions: Version by distribution, where it is installed.
        rocm: ROCm's version; None where there is none.
    """

    build_id: str | None = None
    distributions: Mapping[str, str] | None = None
    rocm: str | None = None

    @property
    def versions(self) -> str:
        """All of it in one word; ``sglang-unknown`` where nothing is known."""
        known = self.distributions or {}
        words = [f"{name}-{known[name]}" for name in STACK if name in known]
        if "sglang" not in known:
            words.insert(0, "sglang-unknown")
        return "_".join([*words, *([f"rocm-{self.rocm}"] if self.rocm else [])])


def read_stack(python: Path, python_path_env: str = "", root: Path = Path("/")) -> EngineStack:
    """Return what an interpreter's engine stands on.

    Args:
        python: The engine's interpreter.
        python_path_env: The engine's PYTHONPATH.
        root: Where the image's own files are.
    """
    return EngineStack(
        build_id=_word(root / BUILD_ID.relative_to("/")),
        distributions=distribution_versions(python, STACK, python_path_env=python_path_env),
        rocm=_word(root / ROCM_VERSION.relative_to("/")),
    )


def _word(path: Path) -> str | None:
    """Return the first word of a small file; None where there is none."""
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            found = _WORD.search(file.read(_LONGEST))
    except OSError:
        return None
    return found[0] if found else None
