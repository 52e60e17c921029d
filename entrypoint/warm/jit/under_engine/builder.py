"""Builds kernels under the engine's own Python: reads steps as JSON lines, and answers each with JSON lines.

It is started by path, knows nothing of the supervisor's packages, and needs only the standard library until a step
asks for more. Its first argument is the descriptor that it answers on; whatever a library prints goes to standard
error, where the supervisor reads what was built.
"""

import importlib
import importlib.util
import inspect
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def main() -> None:
    """Perform one step after the other until there are no more."""
    os.set_inheritable(int(sys.argv[1]), False)  # a compiler that outlives this process must not hold the line open
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1) as answers:
        for line in sys.stdin:
            answers.write(json.dumps(perform(json.loads(line))) + "\n")


def perform(step: Mapping[str, Any]) -> dict[str, Any]:
    """Perform a step; return what became of it.

    Args:
        step: ``call``, a function as ``module:name``, or ``module``, one of aiter's by its name.
    """
    began = time.monotonic()
    absent = failed = None  # not in this installation, which leaves nothing to build; or a failure
    try:
        build_module(step["module"]) if step.get("module") else function(step["call"])()
    except NotImplementedError as error:
        absent = str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # older aiter leaves by SystemExit; all of it is told
        failed = f"{type(error).__name__}: {error}"
    return {"absent": absent, "failed": failed, "seconds": round(time.monotonic() - began, 3)}


def function(place: str) -> Callable[[], object]:
    """Return the function that a step names.

    Raises:
        NotImplementedError: Its module is not installed.
    """
    module, _, name = place.partition(":")
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise NotImplementedError(f"there is no {module}")
    found: Callable[[], object] = getattr(importlib.import_module(module), name)
    return found


def build_module(name: str) -> None:
    """Build one of aiter's modules, unless it is there.

    Raises:
        NotImplementedError: There is no aiter, or it has no such module.
    """
    core = aiter_core()
    if Path(core.get_user_jit_dir(), f"{name}.so").exists():
        return
    if name not in module_names(Path(core.__file__)):
        raise NotImplementedError(f"this aiter has no {name}")
    known = {**core.get_args_of_build(name), "md_name": name}
    wanted = inspect.signature(core.build_module).parameters  # they change from release to release
    core.build_module(**{each: known[each] for each in wanted if each in known})


def aiter_core() -> Any:
    """Return aiter's builder without importing aiter, which asks for a GPU and fails where there is none.

    Raises:
        NotImplementedError: aiter is not installed.
    """
    spec = importlib.util.find_spec("aiter")
    if spec is None or not spec.submodule_search_locations:
        raise NotImplementedError("there is no aiter")
    package = spec.submodule_search_locations[0]
    if package not in sys.path:
        sys.path.insert(0, package)
    _show_log()
    return importlib.import_module("jit.core")


def _show_log() -> None:
    """Have aiter's log printed as its package would: without that import what it builds is not told."""
    logger = logging.getLogger("aiter")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[aiter] %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


def module_names(core: Path) -> frozenset[str]:
    """Return the modules that this release can build."""
    return frozenset(json.loads((core.parent / "optCompilerConfig.json").read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
