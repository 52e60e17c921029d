"""Processes: those below one, and the memory that each holds.

Only files that the kernel answers without a lock on the process's memory are read again and again: a process that hangs
in the middle of a mapping blocks whoever reads its command line.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from entrypoint.node.kernel_file import content

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
SHORT_NAME_BYTES: Final = 15
"""To so many bytes the kernel cuts the name of a process."""
_NOBODY: Final[Mapping[int, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Memory of one process.

    Attributes:
        pid: Its process id.
        name: What it calls itself.
        resident_bytes: All pages that it has mapped and that are in memory.
        private_bytes: Those of no file and no shared memory: what ends with it, and what sums up over processes.
    """

    pid: int
    name: str
    resident_bytes: int
    private_bytes: int


def descendants(pid: int, root: Path = Path("/")) -> tuple[int, ...]:
    """Return the process ids below a process, as far as they live.

    Each process's children are read where the kernel lists them; else every process is asked for its parent, which
    takes longer the more there are on the node.
    """
    if content(f"{root}/proc/{pid}/task/{pid}/children") is None:
        return _by_parents(pid, root)
    found: dict[int, None] = {}
    pending = [pid]
    while pending:
        below = [child for child in _children(pending.pop(), root) if child not in found and child != pid]
        found.update(dict.fromkeys(below))
        pending += below
    return tuple(found)


def _children(pid: int, root: Path) -> Iterator[int]:
    """Yield a process's children; each thread has its own."""
    directory = f"{root}/proc/{pid}/task"
    try:
        threads = os.listdir(directory)  # noqa: PTH208  # once a second: Path objects cost more than the look itself
    except OSError:  # it has ended
        return
    for thread in threads:
        for word in (content(f"{directory}/{thread}/children") or b"").split():
            if word.isdigit():
                yield int(word)


def _by_parents(pid: int, root: Path) -> tuple[int, ...]:
    try:
        names = os.listdir(f"{root}/proc")  # noqa: PTH208  # as above
    except OSError:
        return ()
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, names):
        words = (content(f"{root}/proc/{name}/stat") or b"").rpartition(b")")[2].split()
        if len(words) > 1 and words[1].isdigit():
            children.setdefault(int(words[1]), []).append(int(name))
    found: list[int] = []
    pending = [pid]
    while pending:
        below = children.pop(pending.pop(), [])
        found += below
        pending += below
    return tuple(found)


def process_name(pid: int, root: Path = Path("/"), known: Mapping[int, str] = _NOBODY) -> str:
    """Return what a process calls itself; empty where it has ended.

    Args:
        pid: Its process id.
        root: Where /proc is.
        known: Names from an earlier look: one that was cut is completed once only.
    """
    short = (content(f"{root}/proc/{pid}/comm") or b"").removesuffix(b"\n").decode("utf-8", "replace")
    if len(short.encode()) < SHORT_NAME_BYTES:
        return short
    if known.get(pid, "").startswith(short):
        return known[pid]
    # Its first word alone: what follows may be a secret.
    title = (content(f"{root}/proc/{pid}/cmdline") or b"").replace(b"\0", b" ").partition(b" ")[0]
    last = title.rpartition(b"/")[2].decode("utf-8", "replace")
    return last if last.startswith(short) else short


def process_memory(pid: int, name: str, root: Path = Path("/")) -> ProcessMemory | None:
    """Return the memory of a process; None where it has ended or holds none."""
    pages = (content(f"{root}/proc/{pid}/statm") or b"").split()[1:3]
    if len(pages) < 2 or not (pages[0].isdigit() and pages[1].isdigit()):  # noqa: PLR2004  # resident and shared
        return None
    resident, shared = int(pages[0]), int(pages[1])
    if not resident:
        return None
    return ProcessMemory(pid, name, resident * PAGE_BYTES, max(0, resident - shared) * PAGE_BYTES)
