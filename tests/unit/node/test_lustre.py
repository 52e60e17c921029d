"""Striping, from attributes as Lustre writes them."""

import errno
import struct
from pathlib import Path
from typing import NoReturn

import pytest

from entrypoint.node.lustre import Striping, striping, striping_of

V1, V3, COMPOSITE = 0x0BD10BD0, 0x0BD30BD0, 0x0BD60BD0
MIB = 1 << 20


def plain(count: int, size: int = MIB, magic: int = V1) -> bytes:
    """Return the attribute of a file with one layout, with an object on each target behind it."""
    pool = b"flash".ljust(16, b"\0") if magic == V3 else b""
    return struct.pack("<II16sIHH", magic, 1, b"\1" * 16, size, count, 0) + pool + bytes(24 * count)


def composite(*layouts: bytes) -> bytes:
    """Return the attribute of a file whose parts have layouts of their own."""
    offset = 32 + 48 * len(layouts)
    entries, parts = b"", b""
    for number, layout in enumerate(layouts):
        begin, end = number << 30, (number + 1) << 30
        entries += struct.pack("<IIQQIIIQI", number + 1, 0x10, begin, end, offset + len(parts), len(layout), 0, 0, 0)
        parts += layout
    head = struct.pack("<IIIHHHHHHQ", COMPOSITE, offset + len(parts), 3, 0, len(layouts), 0, 0, 0, 0, 0)
    return head + entries + parts


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (plain(1), Striping(1, MIB)),
        (plain(16, 4 * MIB), Striping(16, 4 * MIB)),
        (plain(8, magic=V3), Striping(8, MIB)),
        (composite(plain(1), plain(4), plain(32, 4 * MIB)), Striping(32, 4 * MIB)),
        (composite(plain(1)), Striping(1, MIB)),
    ],
)
def test_a_file_is_spread_as_its_widest_part(attribute: bytes, expected: Striping):
    assert striping(attribute) == expected


@pytest.mark.parametrize(
    "attribute",
    [b"", b"\0\0", plain(1)[:20], b"\xff" * 64, composite(plain(4))[:60], struct.pack("<I", COMPOSITE), plain(0)],
)
def test_an_attribute_that_cannot_be_understood_says_nothing(attribute: bytes):
    assert striping(attribute) is None


def test_a_file_on_another_file_system_has_no_striping(tmp_path: Path):
    def refuse(path: str, name: str) -> NoReturn:
        raise OSError(errno.EOPNOTSUPP, f"{name} of {path}")

    assert striping_of(tmp_path, refuse) is None
    assert striping_of(tmp_path) is None


def test_the_attribute_of_the_file_itself_is_read(tmp_path: Path):
    asked: list[tuple[str, str]] = []

    def read(path: str, name: str) -> bytes:
        asked.append((path, name))
        return plain(2)

    assert striping_of(tmp_path / "a", read) == Striping(2, MIB)
    assert asked == [(str(tmp_path / "a"), "lustre.lov")]
