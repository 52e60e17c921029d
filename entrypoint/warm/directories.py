"""The cache directories, made ready before the engine starts.

Several processes of an engine creating the same missing directory at once is a race that MIOpen is known to lose.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from entrypoint.findings import Finding
from entrypoint.node.directories import writable_finding
from entrypoint.plan.caches import CacheDirectory, CacheLayer, CacheTrees
from entrypoint.warm.layers import MARKER

SETTINGS = {
    CacheLayer.LOCAL: "caches.local",
    CacheLayer.HUB: "caches.hf_home",
}
"""The setting that chooses where a layer lies."""


def prepare(caches: Iterable[CacheDirectory]) -> tuple[Finding, ...]:
    """Create every cache directory; return what is wrong, once for each root, since a layer is moved as a whole.

    May hang with a network file system: call it in a thread.
    """
    found: dict[Path, Finding] = {}
    for cache in caches:
        finding = writable_finding(cache.path, cache.variable, SETTINGS[cache.layer])
        if finding is not None:
            found.setdefault(cache.root, finding)
    return tuple(found.values())


def shared_finding(where: CacheTrees) -> Finding | None:
    """Return why the shared tree cannot be begun; None where it can, or where it is there already.

    One that is there and may not be written is how an operator shares caches. May hang like ``prepare``.

    Args:
        where: The trees.
    """
    if os.path.exists(where.shared / MARKER):  # noqa: PTH110  # Path.exists raises for a name that is too long
        return None
    return writable_finding(where.root_of(where.shared), "the shared caches", "caches.shared")
