"""Modules: where they live, how they are built, and what is printed then.

Follows aiter/jit/core.py: AITER_JIT_DIR goes to the front of ``sys.path`` and hides the package's own modules; an outer
lock by module and ninja's inner one; the finished library is put in place by a plain copy, not at once; the line that a
build is finished is printed whether or not it succeeded.
"""

# ruff: noqa: ARG001, FBT001, FBT002, PLR0917  # a signature of somebody else's

import functools
import json
import logging
import multiprocessing
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .utils import switches
from .utils.file_baton import FileBaton

logger = logging.getLogger("aiter")
_HERE = Path(__file__).resolve().parent
_loaded: set[str] = set()


@functools.cache
def get_user_jit_dir() -> str:
    if "AITER_JIT_DIR" in os.environ:
        path = os.environ["AITER_JIT_DIR"]
        Path(path).mkdir(parents=True, exist_ok=True)
        sys.path.insert(0, path)
        return path
    if os.access(_HERE, os.W_OK):
        return str(_HERE)
    home = Path.home() / ".aiter" / "jit"
    if not home.exists():
        shutil.copytree(_HERE, home)
    return str(home)


bd_dir = f"{get_user_jit_dir()}/build"
if multiprocessing.current_process().name == "MainProcess":
    Path(bd_dir).mkdir(parents=True, exist_ok=True)


def get_args_of_build(ops_name: str, exclude: Sequence[str] = ()) -> Any:
    """Return a module's arguments; for ``all`` a list of them, without tuners, and what they have in common."""
    known: dict[str, dict[str, Any]] = json.loads((_HERE / "optCompilerConfig.json").read_text())
    if ops_name == "all":
        wanted = [name for name in known if not name.endswith("tune") and name not in exclude]
        merged: dict[str, list[str]] = {
            key: [] for key in ("flags_extra_cc", "flags_extra_hip", "extra_include", "blob_gen_cmd")
        }
        return [{**_arguments(name, known[name]), "md_name": name} for name in wanted], merged
    if ops_name not in known:
        logger.warning("Not found this operator (%s) in 'optCompilerConfig.json'. ", ops_name)
        return _arguments("", {})
    return _arguments(ops_name, known[ops_name])


def _arguments(name: str, own: Mapping[str, Any]) -> dict[str, Any]:
    lists = ("flags_extra_cc", "flags_extra_hip", "extra_include", "third_party")
    switches_off = ("verbose", "is_standalone", "torch_exclude")
    return {
        **{key: [] for key in lists},
        **dict.fromkeys(switches_off, False),
        **dict.fromkeys(("extra_ldflags", "hip_clang_path")),
        **dict.fromkeys(("md_name", "blob_gen_cmd"), ""),
        "srcs": [f"/csrc/{name}.cu"] if name else [],
        "is_python_module": True,
        "flags_extra_hip_per_source": {},
        **own,
    }


def mp_lock(
    lock_path: str, main: Callable[[], None], final: Callable[[], None] | None = None, *, again: bool = True
) -> None:
    """Do something under a lock, or wait for whoever does it; do it after all where that one was dead."""
    baton = FileBaton(lock_path)
    while not baton.try_acquire():
        if baton.wait() or not again:
            return
    try:
        main()
    finally:
        if final is not None:
            final()
        baton.release()


def build_module(
    md_name: str,
    srcs: Sequence[str],
    flags_extra_cc: Sequence[str],
    flags_extra_hip: Sequence[str],
    blob_gen_cmd: str | Sequence[str],
    extra_include: Sequence[str],
    extra_ldflags: Sequence[str] | None,
    verbose: bool,
    is_python_module: bool,
    is_standalone: bool,
    torch_exclude: bool,
    third_party: Sequence[str],
    hipify: bool = False,
    flags_extra_hip_per_source: Mapping[str, Sequence[str]] | None = None,
) -> None:
    Path(bd_dir).mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    who = f"[pid={os.getpid()} pname={multiprocessing.current_process().name}]"
    directory = f"{bd_dir}/{md_name}"
    for name in third_party:
        mp_lock(f"{bd_dir}/lock_3rdparty_clone_{name}", lambda: None)

    def main() -> None:
        logger.info("%s start build [%s] under %s", who, md_name, directory)
        work = Path(directory) / "build"
        (work / "srcs").mkdir(parents=True, exist_ok=True)
        finished = Path(get_user_jit_dir()) / f"{md_name}.so"
        finished.unlink(missing_ok=True)
        source = str(srcs[0]) if srcs else f"{md_name}.cu"
        try:
            built = work / finished.name
            mp_lock(f"{work}/lock", lambda: switches.compile_fake(md_name, source, built))
            if not switches.lies(md_name):
                shutil.copy(built, finished)
        except Exception as error:
            tag = f"\033[31mfailed jit build [{md_name}]\033[0m"
            history = traceback.format_exc().replace("error:", "\033[31merror:\033[0m")
            logger.error("%s%s\n-->[History]: %s%s%s", tag, "↓" * 10, history, tag, "↑" * 10)  # noqa: TRY400
            raise RuntimeError(f"[aiter] build [{md_name}] under {work} failed !!!!!!") from error

    def final() -> None:
        spent_s = time.perf_counter() - began
        logger.info("%s \033[32mfinish build [%s], cost %.1fs \033[0m", who, md_name, spent_s)

    mp_lock(f"{bd_dir}/lock_{md_name}", main, final)


def call_module(md_name: str, variant: str = "") -> None:
    """Call a function of a module, which is built where it is not there."""
    name = variant or md_name
    if name in _loaded:
        return
    path = Path(get_user_jit_dir()) / f"{name}.so"
    try:
        switches.load(path)
    except ModuleNotFoundError:
        arguments = {**get_args_of_build(md_name), "md_name": name}
        del arguments["hip_clang_path"]
        build_module(**arguments)
        switches.load(path)
    logger.info("import [%s] under %s", name, path)
    _loaded.add(name)
