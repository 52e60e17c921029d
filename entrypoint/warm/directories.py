"""The cache directories, made ready before the engine starts.

Several processes of an engine creating the same missing directory at once is a race that MIOpen is known to lose.
"""

from collections.abc import Iterable

from entrypoint.findings import Finding
from entrypoint.node.directories import writable_finding
from entrypoint.plan.caches import CacheDirectory


def prepare(caches: Iterable[CacheDirectory]) -> tuple[Finding, ...]:
    """Create every cache directory; return what is wrong with those that cannot be used.

    May hang with a network file system: call it in a thread.
    """
    found = (writable_finding(cache.path, cache.variable, "caches." + cache.layer) for cache in caches)
    return tuple(finding for finding in found if finding is not None)
