"""What a lock file says of its holder.

torch, and aiter before July 2026, leave it empty. Later ones write process id and host into it; the latest also the pid
namespace, when the process began, and that it holds a flock on the file for as long as it lives.
"""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LARGEST_BYTES: Final = 4096
_FLOCK: Final = "flock"
_LINES: Final = 5
_NEVER_WAIT: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class LockWords:
    """What a lock file says.

    Attributes:
        pid: The process that made it, in its own namespace; None where it does not say.
        host: Its host; empty where it does not say.
        pid_namespace: Inode of its pid namespace; 0 where it does not say.
        started_ticks: When it began, in clock ticks since the host's start; 0 where it does not say.
        flock: Whether it holds a lock in the kernel as long as it lives.
    """

    pid: int | None = None
    host: str = ""
    pid_namespace: int = 0
    started_ticks: int = 0
    flock: bool = False


def read_words(path: Path) -> LockWords:
    """Return what a lock file says; nothing where it is empty, torn, or not understood."""
    try:
        handle = os.open(path, _NEVER_WAIT)
    except OSError:
        return LockWords()
    try:
        text = os.read(handle, LARGEST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return LockWords()
    finally:
        os.close(handle)
    return _words_of_json(text) if text.startswith("{") else _words_of_lines(text.splitlines())


def _words_of_json(text: str) -> LockWords:
    try:
        said = json.loads(text)
    except ValueError:
        return LockWords()
    pid, host = said.get("pid"), said.get("host", said.get("hostname"))
    return LockWords(pid, host) if isinstance(pid, int) and isinstance(host, str) else LockWords()


def _words_of_lines(lines: list[str]) -> LockWords:
    """Understand aiter's lines: pid, host, and in the latest pid namespace, start in ticks, and ``flock``."""
    pid, host, namespace, started, protocol = [*(line.strip() for line in lines), *[""] * _LINES][:_LINES]
    if not pid.isdecimal() or not host:
        return LockWords()
    return LockWords(int(pid), host, inode(namespace), int(started) if started.isdecimal() else 0, protocol == _FLOCK)


def is_flocked(path: Path) -> bool | None:
    """Return whether a lock is held in the kernel, by whatever container; None where that cannot be told.

    Asked only of a file that says that it is: at a file that is just being made, this look could be in the way.
    """
    try:
        handle = os.open(path, _NEVER_WAIT)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(handle)
    return False


def inode(namespace: str) -> int:
    """Return the number in ``pid:[4026531836]``; 0 where there is none."""
    digits = namespace.removeprefix("pid:[").removesuffix("]")
    return int(digits) if digits.isdecimal() else 0
