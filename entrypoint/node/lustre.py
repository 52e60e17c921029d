"""Lustre striping: over how many storage targets a file is spread, from its extended attribute.

A file on one target reads back at that one target's bandwidth, however many readers there are. The attribute's layout
is part of Lustre's disk format (lov_mds_md_v1 and _v3, lov_comp_md_v1; little-endian).
"""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ATTRIBUTE = "lustre.lov"
_V1, _V3, _COMPOSITE = 0x0BD10BD0, 0x0BD30BD0, 0x0BD60BD0
_PLAIN = struct.Struct("<II16sIHH")
"""Magic, pattern, object id, stripe size in bytes, stripe count, generation."""
_COMPOSITE_HEAD = struct.Struct("<IIIHH16x")
"""Magic, size, generation, flags, number of entries."""
_ENTRY = struct.Struct("<IIQQII16x")
"""Id, flags, begin, end, offset and size of its plain layout."""
MOST_ENTRIES = 256
EVERYWHERE = 0xFFFF
"""A stripe count that stands for all targets."""


@dataclass(frozen=True, slots=True)
class Striping:
    """How a file is spread.

    Attributes:
        targets: Over how many targets its widest part is.
        stripe_bytes: Size of a stripe of that part.
    """

    targets: int
    stripe_bytes: int


def striping(attribute: bytes) -> Striping | None:
    """Return how a file is spread; None where the attribute cannot be understood."""
    try:
        (magic,) = struct.unpack_from("<I", attribute)
        if magic in {_V1, _V3}:
            return _plain(attribute, 0)
        return _widest(attribute) if magic == _COMPOSITE else None
    except struct.error:
        return None


def _plain(attribute: bytes, offset: int) -> Striping | None:
    magic, _, _, stripe_bytes, count, _ = _PLAIN.unpack_from(attribute, offset)
    return Striping(count, stripe_bytes) if magic in {_V1, _V3} and count else None


def _widest(attribute: bytes) -> Striping | None:
    *_, count = _COMPOSITE_HEAD.unpack_from(attribute)
    places = (_COMPOSITE_HEAD.size + number * _ENTRY.size for number in range(min(count, MOST_ENTRIES)))
    parts = [part for place in places if (part := _plain(attribute, _ENTRY.unpack_from(attribute, place)[4]))]
    return max(parts, key=lambda part: part.targets, default=None)


def striping_of(path: Path, read: Callable[[str, str], bytes] = os.getxattr) -> Striping | None:
    """Return how a file is spread; None where it is on no Lustre, or cannot be asked.

    Args:
        path: The file.
        read: Reads an extended attribute.
    """
    try:
        return striping(read(str(path), ATTRIBUTE))
    except OSError:
        return None
