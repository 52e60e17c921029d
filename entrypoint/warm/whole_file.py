"""Small documents in a tree of caches: read by other jobs at any moment, so that they are there whole or not at all."""

import json
import os
import secrets
from pathlib import Path


def write_json(path: Path, document: object) -> None:
    """Put a document in place of an older one, and have it on the disk; its directory is made where it is missing.

    Raises:
        OSError: It cannot be written there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.parent / f".tmp-{os.getpid()}-{secrets.token_hex(6)}"
    try:
        with staged.open("w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
