"""What a fake build does, by environment variables; each is a list of words, ``name`` or ``name=value``.

STANDIN_AITER_SECONDS: how long a build takes: ``0.5`` for all, ``module_quant=3`` for one.
STANDIN_AITER_FAIL: builds that fail, with a compiler's output on standard error.
STANDIN_AITER_LIE: builds that say that they have finished and leave nothing.
STANDIN_AITER_HANG: builds that never end.
STANDIN_AITER_CRASH: builds whose process dies by a signal in the middle: ``module_quant=11``.
STANDIN_AITER_NO_GPU: anything: there is no GPU.

A template operator's name is its function's, without the hash of its arguments.
"""

import os
import signal
import sys
import time
from pathlib import Path

BEGIN = b"\x7fELF\x02\x01\x01"
END = b"end of the stand-in's library\n"
FILLING = 1 << 12


def without_gpu() -> bool:
    return bool(os.environ.get("STANDIN_AITER_NO_GPU"))


def compile_fake(name: str, source: str, target: Path) -> None:
    """Take the time that a build takes, and write what a linker would, or not.

    Raises:
        RuntimeError: The build is to fail.
    """
    time.sleep(_seconds(name))
    if name in _words("HANG"):
        signal.pause()
    if name in _words("CRASH"):
        os.kill(os.getpid(), int(_words("CRASH")[name]))
    if name in _words("FAIL"):
        sys.stderr.write(f"FAILED: {name}.cuda.o\n{source}:12:5: error: use of undeclared identifier 'warp'\n")
        sys.stderr.write("ninja: build stopped: subcommand failed.\n")
        raise RuntimeError(f"Error building extension '{name}'")
    if name not in _words("LIE"):
        target.write_bytes(BEGIN + bytes(FILLING) + name.encode() + END)


def lies(name: str) -> bool:
    return name in _words("LIE")


def load(path: Path) -> None:
    """Load a library.

    Raises:
        ModuleNotFoundError: There is none.
        ImportError: It is not whole.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModuleNotFoundError(f"No module named '{path.stem}'") from None
    if not (content.startswith(BEGIN) and content.endswith(END)):
        raise ImportError(f"{path}: file too short")


def _seconds(name: str) -> float:
    words = _words("SECONDS")
    general = next((word for word, value in words.items() if not value), "0")
    return float(words.get(name) or general)


def _words(switch: str) -> dict[str, str]:
    words = os.environ.get(f"STANDIN_AITER_{switch}", "").replace(",", " ").split()
    return {name: value for name, _, value in (word.partition("=") for word in words)}
