"""Files that a run leaves: written whole or not at all, and private."""

import json
import os
import secrets
from pathlib import Path
from typing import Any

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, so that a reader sees the old one or the new one, never half of it.

    Raises:
        OSError: It cannot be written.
    """
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # New or not at all (O_EXCL): nothing that lies there already is followed, nor keeps its own permissions.
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        # A log's broken characters must not cost the report.
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def write_private_json(path: Path, value: Any) -> None:
    """Write a value as JSON, like ``write_private``."""
    write_private(path, json.dumps(value, indent=2, default=str) + "\n")
