"""Kernel files: small texts of /proc and /sys, read as they are, whatever state they are in.

What cannot be read or understood is absent. No limit on time is kept here: a read of the kernel can hang, and whoever
must not hang reads in a thread of its own.
"""

import os

LARGEST_BYTES = 1 << 20
"""Far more than any of these files holds; what is larger is something else, and only its beginning is looked at."""
_CHUNK_BYTES = 1 << 16
_KIB = 1024


def content(path: str) -> bytes | None:
    """Return what a file holds; None where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        data = os.read(handle, _CHUNK_BYTES)
        whole = data
        # The kernel may hand out a long file page by page, so that only an empty read is its end.
        while data and len(whole) < LARGEST_BYTES:
            data = os.read(handle, _CHUNK_BYTES)
            whole += data
    except OSError:
        return None
    finally:
        os.close(handle)
    return whole


def number(path: str) -> int | None:
    """Return the whole number that a file consists of; None where it holds anything else."""
    return whole_number(content(path))


def whole_number(text: bytes | None) -> int | None:
    """Return a text as a whole number, not negative; None where it is anything else."""
    stripped = text.strip() if text is not None else b""
    # Python refuses to read numbers of thousands of digits, and no counter of the kernel has more than twenty.
    return int(stripped) if stripped.isdigit() and len(stripped) <= _LONGEST_NUMBER else None


_LONGEST_NUMBER = 20


def field(text: bytes | None, name: bytes) -> int | None:
    """Return the number of a line ``<name> <number>``; None where there is no such line.

    Args:
        text: A file of such lines.
        name: The field, with its colon where it has one.
    """
    if text is None:
        return None
    begin = 0 if text.startswith(name + b" ") else text.find(b"\n" + name + b" ") + 1
    if begin == 0 and not text.startswith(name + b" "):
        return None
    end = text.find(b"\n", begin)
    words = text[begin + len(name) : end if end >= 0 else len(text)].split()
    return whole_number(words[0]) if words else None


def kib_field(text: bytes | None, name: bytes) -> int | None:
    """Return a line ``<name> <number> kB`` in bytes: what the kernel calls kB are KiB."""
    kib = field(text, name)
    return None if kib is None else kib * _KIB
