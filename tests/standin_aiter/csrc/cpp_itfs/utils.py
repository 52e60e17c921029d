"""Template operators, after aiter's file of this name: compiled for each set of arguments below AITER_ROOT_DIR.

The variable of that name is read here alone; without it, the home is built in. After a stale lock was broken nothing is
built again, so that the library may be missing then.
"""

import hashlib
import logging
import os
import shutil
import time
from functools import lru_cache
from pathlib import Path

from aiter.jit.core import mp_lock
from aiter.jit.utils import switches

logger = logging.getLogger("aiter")
BUILD_DIR = Path(os.environ.get("AITER_ROOT_DIR") or f"{os.environ.get('HOME')}/.aiter").absolute() / "build"
if int(os.environ.get("AITER_REBUILD", "0")) >= 1:
    shutil.rmtree(BUILD_DIR, ignore_errors=True)
BUILD_DIR.mkdir(parents=True, exist_ok=True)


def compile_template_op(md_name: str, **arguments: object) -> None:
    """Load an operator for a set of arguments, which is compiled where it is not there."""
    signature = "_".join(str(value).lower() for value in arguments.values())
    folder = f"{md_name}_{hashlib.md5(signature.encode(), usedforsecurity=False).hexdigest()}"
    if not (BUILD_DIR / folder / "lib.so").exists():
        _compile_lib(md_name, folder)
    _run_lib(folder)


def _compile_lib(md_name: str, folder: str) -> None:
    directory = BUILD_DIR / folder
    (directory / "include").mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()

    def main() -> None:
        logger.info("start build %s", directory)
        (directory / f"{folder}.cpp").touch()
        switches.compile_fake(md_name, f"{folder}.cpp", directory / "lib.so")

    def final() -> None:
        logger.info("finish build %s, cost %.8fs", directory, time.perf_counter() - began)

    mp_lock(f"{directory}/lock", main, final, again=False)


@lru_cache
def _run_lib(folder: str) -> None:
    library = BUILD_DIR / folder / "lib.so"
    if not library.exists():
        raise OSError(f"{library}: cannot open shared object file: No such file or directory")
    switches.load(library)
