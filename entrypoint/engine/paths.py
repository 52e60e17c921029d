"""Paths as users write them."""

import os
from pathlib import Path


def expanded(path: Path | str) -> Path:
    """Return a path with ``~`` replaced by the home directory; that of an unknown user stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises where a user is unknown
