"""Control groups: which limits a process lives under, how near they are, and who was killed at them.

Both versions are read. What a limit is compared with includes page cache, which the kernel drops before it kills, so
that the pages of files are told apart: weights that were read once must not look like memory in use. Version 1 counts
a kill in the victim's own group alone, version 2 in every group above as well (``memory.events``), unless asked for the
group itself (``memory.events.local``, Linux 5.2).
"""

import os
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Final

from entrypoint.node.kernel_file import content, field, number

_MOUNT: Final = "sys/fs/cgroup"
_NO_LIMIT_BYTES: Final = 1 << 60
"""Version 1 writes "no limit" as the largest number of pages that it can count, in bytes."""


class CgroupVersion(IntEnum):
    """Of the two interfaces that the kernel has for groups; only one of them has the memory."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A group that has something to say about memory.

    Attributes:
        directory: Where its files are.
        path: The same below the mount, as people know it; ``/`` for the mount itself.
        version: Which interface.
        is_own: A process that matters lives in it; else in a group below.
        is_exact: It is the very group that the process names; else, in a container, the nearest that is to be seen.
    """

    directory: str
    path: str
    version: CgroupVersion
    is_own: bool
    is_exact: bool


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """Memory of one group, everything below it included.

    Attributes:
        path: Below the mount.
        is_own: A process that matters lives in it; else in a group below.
        current_bytes: What it uses, page cache included.
        limit_bytes: What it may use; None for no limit.
        reclaimable_bytes: Pages of files among what it uses; looked up only where there is a limit.
        oom_kills: Processes killed for want of memory: of this very group where that is told, else also of those below
            it; None where unknown.
    """

    path: str
    is_own: bool
    current_bytes: int
    limit_bytes: int | None = None
    reclaimable_bytes: int = 0
    oom_kills: int | None = None

    @property
    def headroom_bytes(self) -> int | None:
        """What its processes could still get; None where it has no limit."""
        if self.limit_bytes is None:
            return None
        return max(0, self.limit_bytes - max(0, self.current_bytes - self.reclaimable_bytes))


def groups_of(pid: int | None, root: Path = Path("/")) -> tuple[Cgroup, ...]:
    """Return the group of a process and every one above it, the innermost first.

    In a container the path that the kernel names may lie above what is mounted, so that its beginning is left out
    step by step until it fits, and in the end the mount itself is taken.

    Args:
        pid: The process; None for this one.
        root: Where /proc and /sys are.
    """
    named = _named(content(f"{root}/proc/{'self' if pid is None else pid}/cgroup") or b"")
    if named is None:
        return ()
    version, path = named
    mount = f"{root}/{_MOUNT}/memory" if version is CgroupVersion.V1 else f"{root}/{_MOUNT}"
    # A path that begins with .. is that of a group outside of the container's own.
    parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
    for begin in range(len(parts) + 1):
        below = parts[begin:]
        if os.path.isdir("/".join([mount, *below])):  # noqa: PTH112  # Path.is_dir raises where it may not look
            return _chain(mount, below, version, is_exact=begin == 0)
    return ()


def _chain(mount: str, parts: list[str], version: CgroupVersion, *, is_exact: bool) -> tuple[Cgroup, ...]:
    return tuple(
        Cgroup(
            "/".join([mount, *parts[:depth]]),
            "/" + "/".join(parts[:depth]),
            version,
            is_own=depth == len(parts),
            is_exact=is_exact,
        )
        for depth in range(len(parts), -1, -1)
    )


def _named(text: bytes) -> tuple[CgroupVersion, str] | None:
    """Return version and path of the group that has the memory: version 1 wherever it has it."""
    unified = None
    for line in text.splitlines():
        hierarchy, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        if b"memory" in controllers.split(b","):
            return CgroupVersion.V1, os.fsdecode(path)
        if hierarchy == b"0" and not controllers and path:
            unified = os.fsdecode(path)
    return None if unified is None else (CgroupVersion.V2, unified)


def merged(chains: tuple[tuple[Cgroup, ...], ...]) -> tuple[Cgroup, ...]:
    """Return every group of several chains once; one that is some process's own stays its own."""
    found: dict[str, Cgroup] = {}
    for group in (group for chain in chains for group in chain):
        known = found.get(group.directory)
        if known is None:
            found[group.directory] = group
        elif group.is_own and not known.is_own:
            found[group.directory] = replace(known, is_own=True, is_exact=group.is_exact)
    return tuple(found.values())


def group_memory(group: Cgroup) -> CgroupMemory | None:
    """Return the memory of a group; None where it tells nothing of it, such as the topmost of version 2."""
    return _v1_memory(group) if group.version is CgroupVersion.V1 else _v2_memory(group)


def _v1_memory(group: Cgroup) -> CgroupMemory | None:
    current_bytes = number(f"{group.directory}/memory.usage_in_bytes")
    if current_bytes is None:
        return None
    limit_bytes = number(f"{group.directory}/memory.limit_in_bytes")
    if limit_bytes is not None and limit_bytes >= _NO_LIMIT_BYTES:
        limit_bytes = None
    return CgroupMemory(
        group.path,
        group.is_own,
        current_bytes,
        limit_bytes,
        _file_bytes(group, b"total_") if limit_bytes is not None else 0,
        field(content(f"{group.directory}/memory.oom_control"), b"oom_kill"),
    )


def _v2_memory(group: Cgroup) -> CgroupMemory | None:
    current_bytes = number(f"{group.directory}/memory.current")
    if current_bytes is None:
        return None
    limit_bytes = number(f"{group.directory}/memory.max")  # the word "max" where there is none
    return CgroupMemory(
        group.path,
        group.is_own,
        current_bytes,
        limit_bytes,
        _file_bytes(group, b"") if limit_bytes is not None else 0,
        _v2_oom_kills(group),
    )


def _v2_oom_kills(group: Cgroup) -> int | None:
    """Return the kills of the group itself, or with those below where only an outer group is to be seen."""
    local = field(content(f"{group.directory}/memory.events.local"), b"oom_kill") if group.is_exact else None
    return field(content(f"{group.directory}/memory.events"), b"oom_kill") if local is None else local


def _file_bytes(group: Cgroup, prefix: bytes) -> int:
    """Return the pages of files, both the recently used and the others: the kernel takes them all before it kills."""
    text = content(f"{group.directory}/memory.stat")
    return sum(field(text, prefix + name) or 0 for name in (b"inactive_file", b"active_file"))
