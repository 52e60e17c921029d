"""What was learned: modules that an engine built although its caches were said to be warm.

They lie beside the caches that they belong to, and are built ahead from the next start on.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from entrypoint.warm.whole_file import write_json

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
    if new:
        write_json(tree / FILE, {"modules": sorted(known | new)[:MOST]})
    return new
