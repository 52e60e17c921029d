"""Reading a checkpoint's small files, and telling its contents from placeholders."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_LFS_HEADER: Final = b"version https://git-lfs.github.com/spec/"
_POINTER_AT_MOST_BYTES: Final = 1024
"""Git LFS's own bound for a pointer file; larger files are not opened, which a parallel file system thanks."""


def read_object(path: Path) -> Mapping[str, Any]:
    """Read a JSON object.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it holds something else.
    """
    content = path.read_bytes()
    if content.startswith(_LFS_HEADER):
        raise ValueError("it is a Git LFS pointer")
    try:
        document = json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - the content is wrong, not an argument's type
    return document


def size_bytes(path: Path) -> int | None:
    """Return a file's size, or None where it is missing: a link to a blob never downloaded counts as that."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):  # an index may name files that no file system can hold
        return None


def is_content(path: Path) -> bool:
    """Return whether a file is there with content of its own."""
    return size_bytes(path) not in (None, 0) and not is_pointer(path)


def is_pointer(path: Path) -> bool:
    """Return whether a file is a Git LFS pointer; one that may not be read is left to the engine to report."""
    if (size_bytes(path) or 0) > _POINTER_AT_MOST_BYTES:
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(len(_LFS_HEADER)) == _LFS_HEADER
    except OSError:
        return False
