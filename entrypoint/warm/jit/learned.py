"""What was learned: modules that an engine built although its caches were said to be warm.

They lie beside the caches that they belong to, and are built ahead from the next start on.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

FILE = "learned.json"
LARGEST_BYTES = 1 << 20
MOST = 1000


def read(tree: Path) -> frozenset[str]:
    """Return the modules that were learned for a tree; none where nothing readable is written down."""
    try:
        with (tree / FILE).open("rb") as file:
            document = json.loads(file.read(LARGEST_BYTES))
        return frozenset(str(name) for name in document["modules"][:MOST])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def add(tree: Path, modules: Iterable[str]) -> frozenset[str]:
    """Write down more modules; return those that are new.

    Two that add at once may lose one's word, which is then learned again.

    Raises:
        OSError: The tree cannot be written.
    """
    known = read(tree)
    new = frozenset(modules) - known
    if not new:
        return new
    tree.mkdir(parents=True, exist_ok=True)
    staged = tree / f".tmp-learned-{os.getpid()}-{secrets.token_hex(6)}"
    try:
        staged.write_text(json.dumps({"modules": sorted(known | new)[:MOST]}), encoding="utf-8")
        staged.replace(tree / FILE)
    finally:
        with contextlib.suppress(FileNotFoundError):
            staged.unlink()
    return new
