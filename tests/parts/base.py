"""A small Debian with Python, as an archive: what test images and the emulated machine are made of."""

import hashlib
import subprocess
from pathlib import Path

from parts.cache import made_once

COMMAND = (
    *("mmdebstrap", "--quiet", "--variant=essential", "--dpkgopt=force-unsafe-io"),
    *("--include=ca-certificates,python3,python3-venv", "bookworm"),
)
RECIPE = hashlib.sha256(repr(COMMAND).encode()).hexdigest()[:12]


def base_archive() -> Path:
    """Return the archive; it takes half a minute the first time."""
    return made_once(f"base-{RECIPE}.tar", _make)


def _make(target: Path) -> None:
    subprocess.run([*COMMAND, str(target)], check=True)
