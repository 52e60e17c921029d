"""The real aiter: its JIT with Debian's HIP compiler builds, without a GPU, what needs no headers of ROCm's torch.

As a program, it prepares the packages and prints where they are. They lie beside the CPU engine's, whose Python runs
them, below ``$CPU_ENGINE_HOME``, by default ~/.cache/supervise-engine.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from parts import debian

VERSION = "0.1.7.post2.dev18"
PACKAGES = (
    f"amd-aiter=={VERSION}",
    *("ninja==1.13.2", "pybind11==3.1.0"),
    *("pandas==3.1.1", "python-dateutil==4.0.0", "pytz==2026.6", "six", "tzdata"),
)
"""aiter with what it imports and the engine does not have; nothing else is looked for."""
RECIPE = hashlib.sha256(repr((PACKAGES, platform.python_version())).encode()).hexdigest()[:12]
BUILDABLE = "module_aiter_enum"
"""The one module that needs no HIP headers of torch."""
UNBUILDABLE = "module_activation"
"""Any other: hipcc gives up on it in the middle of a header."""
ARCHITECTURE = "gfx90a"
"""The newest that Debian's compiler knows."""
BUILD = """\
import inspect, logging, sys
if sys.argv[3] == "aloud":
    logging.basicConfig(level=logging.INFO, format="[aiter] %(message)s")
sys.path.insert(0, sys.argv[1] + "/aiter")
from jit import core
known = {**core.get_args_of_build(sys.argv[2]), "md_name": sys.argv[2]}
core.build_module(**{name: known[name] for name in inspect.signature(core.build_module).parameters if name in known})
"""
"""Builds a module as aiter's own setup does: without ``import aiter``, which asks for a GPU."""


def reason_against() -> str | None:
    """Return why nothing can be built here; None where it can."""
    lacking = debian.missing("aiter")
    return f"needs the Debian packages {' '.join(lacking)}" if lacking else None


def environment(python: Path, jit_directory: Path) -> Mapping[str, str]:
    """Return the whole environment of a process that builds; the packages are installed where they are missing.

    Args:
        python: The CPU engine's.
        jit_directory: Where modules go.
    """
    site = packages(python)
    return {
        "PATH": f"{site}/bin:{os.environ['PATH']}",
        "HOME": str(jit_directory),
        "PYTHONPATH": str(site),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ROCM_HOME": "/usr",
        "HIP_PLATFORM": "amd",
        "GPU_ARCHS": ARCHITECTURE,
        "AITER_JIT_DIR": str(jit_directory),
        "MAX_JOBS": "2",
    }


def packages(python: Path) -> Path:
    """Return the directory of the packages, made by the first who asks; whoever asks meanwhile waits.

    Args:
        python: The CPU engine's.
    """
    home = _home()
    site = home / f"aiter-{VERSION}-{RECIPE}"
    with (home / f"{site.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.exists():
            workshop = Path(tempfile.mkdtemp(dir=home))
            try:
                _install(python, workshop / "site")
                (workshop / "site").replace(site)
            finally:
                shutil.rmtree(workshop)
    return site


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("CPU_ENGINE_HOME") or cache / "supervise-engine").absolute()
    home.mkdir(parents=True, exist_ok=True)
    return home


def _install(python: Path, site: Path) -> None:
    """Install as pip does: without its mark that it is installed, aiter looks for its sources in the wrong place."""
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(site), *PACKAGES], check=True, stdin=subprocess.DEVNULL)


def start_build(
    python: Path, jit_directory: Path, module: str, output: IO[bytes], *, aloud: bool = True
) -> subprocess.Popen[bytes]:
    """Start to build a module, in a process group of its own with all compilers.

    Args:
        python: The CPU engine's.
        jit_directory: Where modules go.
        module: Its name.
        output: What takes its output and its errors.
        aloud: Whether aiter's words are printed; by themselves they are only where ``import aiter`` was done.
    """
    words = (str(packages(python)), module, "aloud" if aloud else "quietly")
    return subprocess.Popen(
        [str(python), "-c", BUILD, *words],
        env=dict(environment(python, jit_directory)),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


if __name__ == "__main__":
    print(packages(Path(sys.argv[1])))  # noqa: T201
