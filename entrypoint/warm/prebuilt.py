"""The image's prebuilt kernels: an ``AITER_JIT_DIR`` that is empty hides them, and every module is built anew.

With the variable set, aiter imports its modules from that directory alone; the ``.so`` files inside its package are
then never looked at (aiter's jit/core.py, August 2026). SGLang's ROCm images build them in place, in a source tree.
"""

from collections.abc import Iterable
from pathlib import Path

from entrypoint.engine.installation import package_directories
from entrypoint.findings import Finding, Severity

SOURCE_TREE = Path("/sgl-workspace/aiter")
"""Where SGLang's ROCm images keep aiter (docker/rocm.Dockerfile of 0.5.17 and later)."""
SETTING = "engine.env.AITER_JIT_DIR"


def prebuilt_modules(python: Path, source_tree: Path = SOURCE_TREE) -> tuple[Path, ...]:
    """Return the compiled modules that an image brought, sorted; may hang with a network file system."""
    packages = [directory / "aiter" for directory in package_directories(python)]
    places = (place / "jit" for place in (*packages, source_tree / "aiter"))
    return next((found for place in places if (found := tuple(sorted(place.glob("*.so"))))), ())


def hidden_modules_finding(modules: Iterable[Path], directory: Path | None) -> Finding | None:
    """Return that an empty directory hides the image's modules; None where it does not.

    Args:
        modules: What the image brought.
        directory: What AITER_JIT_DIR will be; None where it is not set.
    """
    hidden = tuple(modules)
    if not hidden or directory is None or any(directory.glob("*.so")):
        return None
    return Finding(
        "aiter-hidden",
        Severity.WARNING,
        f"AITER_JIT_DIR is {directory}, which holds no module: the {len(hidden)} that the image has prebuilt in "
        f"{hidden[0].parent} would be built anew.",
        f'Copy them there, or leave the image\'s own in use: {SETTING} = "".',
        SETTING,
    )
