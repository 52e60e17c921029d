"""Compiled libraries: whether one was cut off while somebody wrote it, told by its header.

aiter puts a library in place by a plain copy. A builder that is killed in the middle leaves the beginning of it, which
is as quiet as a finished one, and would be handed on to every node for ever.
"""

import os
import struct
from typing import Final

SUFFIX: Final = ".so"
_ELF64_LITTLE_ENDIAN: Final = b"\x7fELF\x02\x01"
_HEADER: Final = struct.Struct("<40xQ10xHH")
"""Of the table of sections, which linkers write last: where it begins, the size of a row, how many there are."""


def is_cut_off(path: str, size_bytes: int) -> bool:
    """Return whether a library ends before the table at its end does; what is no library is not judged.

    Args:
        path: The file.
        size_bytes: How long it is.

    Raises:
        OSError: It cannot be read.
    """
    if not size_bytes:
        return True
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        beginning = os.read(handle, _HEADER.size)
    finally:
        os.close(handle)
    if not beginning.startswith(_ELF64_LITTLE_ENDIAN):
        return False
    if len(beginning) < _HEADER.size:
        return True
    table, row_bytes, rows = _HEADER.unpack(beginning)
    return bool(table + row_bytes * rows > size_bytes)
