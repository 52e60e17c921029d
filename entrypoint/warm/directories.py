"""The cache directories, made ready before the engine starts.

Several processes of an engine creating the same missing directory at once is a race that MIOpen is known to lose.
"""

from collections.abc import Iterable
from pathlib import Path

from entrypoint.findings import Finding
from entrypoint.node.directories import writable_finding
from entrypoint.plan.caches import CacheDirectory, CacheLayer

SETTINGS = {
    CacheLayer.SHARED: "caches.shared",
    CacheLayer.LOCAL: "caches.local",
    CacheLayer.HUB: "caches.hf_home",
}
"""The setting that chooses where a layer lies."""


def prepare(caches: Iterable[CacheDirectory]) -> tuple[Finding, ...]:
    """Create every cache directory; return what is wrong, once for each root, since a layer is moved as a whole.

    By default two layers have one root: the local one lies in the shared one. May hang with a network file system:
    call it in a thread.
    """
    found: dict[Path, Finding] = {}
    for cache in caches:
        finding = writable_finding(cache.path, cache.variable, SETTINGS[cache.layer])
        if finding is not None:
            found.setdefault(cache.root, finding)
    return tuple(found.values())
