"""File systems: what each path lies on, by the kernel's table of mounts alone, so that a hung one is not touched."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from entrypoint.node.kernel_file import content

_NETWORK = frozenset({"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "ceph", "9p", "afs", "fuse.sshfs"})
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_CONTAINERS_OWN = frozenset({"overlay", "aufs", "fuse.fuse-overlayfs"})
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_MOUNT_POINT = 4
"""Place of the mount point among a line's fields (proc(5), mountinfo)."""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What a path lies on.

    Attributes:
        kind: The kernel's name of it, such as lustre or tmpfs.
        mount_point: Where it is mounted.
    """

    kind: str
    mount_point: str

    @property
    def on_network(self) -> bool:
        """Whether other machines see it too."""
        return self.kind in _NETWORK

    @property
    def in_memory(self) -> bool:
        """Whether its files are this node's memory."""
        return self.kind in _IN_MEMORY

    @property
    def of_the_container(self) -> bool:
        """Whether it is a container's own layer, gone with it."""
        return self.kind in _CONTAINERS_OWN


def file_systems(root: Path = Path("/")) -> tuple[FileSystem, ...]:
    """Return every mount in the kernel's order; the later one covers the earlier at the same place."""
    text = content(f"{root}/proc/self/mountinfo") or b""
    found = (_mount(line) for line in text.splitlines())
    return tuple(mount for mount in found if mount is not None)


def _mount(line: bytes) -> FileSystem | None:
    place, _, kind = line.partition(b" - ")
    fields, kinds = place.split(), kind.split()
    if len(fields) <= _MOUNT_POINT or not kinds:
        return None
    mount_point = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), fields[_MOUNT_POINT])
    return FileSystem(os.fsdecode(kinds[0]), os.fsdecode(mount_point))


def file_system_of(path: Path, mounts: tuple[FileSystem, ...]) -> FileSystem | None:
    """Return what a path lies on; None where the table does not say.

    Args:
        path: An absolute path without links, which need not exist.
        mounts: The table, in the kernel's order.
    """
    over = [mount for mount in mounts if path.is_relative_to(mount.mount_point)]
    longest = max((len(mount.mount_point) for mount in over), default=0)
    return next((mount for mount in reversed(over) if len(mount.mount_point) == longest), None)
