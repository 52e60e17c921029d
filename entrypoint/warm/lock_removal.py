"""Removing a lock that nobody holds, without ever removing one that somebody took a moment ago."""

import os
import secrets
import shutil
from contextlib import suppress
from enum import Enum
from pathlib import Path
from stat import S_ISDIR
from typing import Final

ASIDE_SUFFIX: Final = ".steal"
"""Names of helpers end so: should this process be killed in between, what is left is found like one of them."""


class Removal(Enum):
    """What became of a lock."""

    REMOVED = "removed"
    GONE = "gone"
    """It was released or removed by somebody else."""
    TAKEN = "taken"
    """Somebody has taken it anew: it stays."""
    REFUSED = "refused"
    """It stays for another reason."""


def remove(path: Path, judged: os.stat_result) -> tuple[Removal, str]:
    """Remove a lock as it was when it was judged; return what became of it, and the problem where there is one.

    Args:
        path: The lock: a file, or a directory with all that it holds.
        judged: Its status then. Whoever takes a lock makes a new file, which differs in its inode or its time.
    """
    try:
        if not _is_same(path.lstat(), judged):
            return Removal.TAKEN, ""
        aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{ASIDE_SUFFIX}")
        # It is moved before it is removed, so that what is removed is what was looked at.
        path.rename(aside)
        if not _is_same(aside.lstat(), judged):
            _put_back(aside, path)
            return Removal.TAKEN, ""
        if S_ISDIR(judged.st_mode):
            shutil.rmtree(aside)
        else:
            aside.unlink()
    except FileNotFoundError:
        return Removal.GONE, ""
    except OSError as error:
        return Removal.REFUSED, error.strerror or str(error)
    return Removal.REMOVED, ""


def _is_same(status: os.stat_result, judged: os.stat_result) -> bool:
    return os.path.samestat(status, judged) and status.st_mtime_ns == judged.st_mtime_ns


def _put_back(aside: Path, path: Path) -> None:
    """Give a living lock its name back; not where a third has taken that meanwhile, since it is the living one now."""
    if aside.is_dir():
        aside.rename(path)
        return
    with suppress(FileExistsError):
        os.link(aside, path, follow_symlinks=False)
    aside.unlink()
