"""The check of the node: what the plan needs, looked for on the machine, each look in bounded time.

A look at a hung network file system never comes back. Each path is resolved in a thread of its own, and one that does
not come back in time is a finding with its name.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from entrypoint.engine import checkpoint
from entrypoint.engine.model_location import hub_directory, locate
from entrypoint.findings import Finding, Severity
from entrypoint.node.filesystems import FileSystem, file_system_of
from entrypoint.node.inspection import inspect
from entrypoint.node.lustre import Striping, striping_of
from entrypoint.offload import offload
from entrypoint.outcome import ExitCode
from entrypoint.plan.caches import CacheDirectory
from entrypoint.plan.plan import Plan
from entrypoint.plan.rules.node import judge_node
from entrypoint.plan.rules.on_node import OnNode
from entrypoint.site.reading import read_site, site_names
from entrypoint.site.site import Site
from entrypoint.warm.directories import SETTINGS

LOOK_S = 5.0
"""Seconds after which a look at a path is given up."""
_DAY_S = 86_400
MOST_FILES = 20_000
"""Files of which the size is added up; more would take longer than a check may."""


@dataclass(frozen=True, slots=True)
class _Model:
    """The model's files, as far as they are here."""

    directory: Path | None = None
    weights_bytes: int | None = None
    striping: Striping | None = None
    unread_days: float | None = None


Seen = TypeVar("Seen")


async def node_findings(plan: Plan, environment: Mapping[str, str], root: Path = Path("/")) -> tuple[Finding, ...]:
    """Return what the node lacks for a plan.

    Args:
        plan: The plan.
        environment: The engine's whole environment.
        root: Where /proc, /sys and /dev are.
    """
    looks = _Looks()
    inspection = await offload(lambda: inspect(environment, root), "node")
    model = await looks.take(lambda: _model(plan, environment), "the model's directory", "model.path", _Model())
    caches = await _real_caches(plan.caches, looks)
    shared = await looks.take(partial(_real, plan.trees.shared), str(plan.trees.shared), "caches.shared", None)
    in_memory = tuple(cache.path for cache in caches if _is_in_memory(cache.path, inspection.mounts))
    held_bytes = await looks.take(lambda: _size_bytes(in_memory), "the caches in memory", "caches.local", 0)
    step = plan.node.step
    ends_at = step.job_end_unix_s if step else None
    seen = OnNode(
        node=inspection,
        on_cpu=plan.meaning.get("device") == ("cpu",),
        devices=_number(plan.meaning.get("tp_size")),
        nodes=plan.replica.nodes,
        in_step=step is not None,
        seconds_left=None if ends_at is None else ends_at - time.time(),
        load_s=plan.settings.deadlines.load_s,
        weights_bytes=None if model.weights_bytes is None else model.weights_bytes // plan.replica.nodes,
        rank_bytes=_rank_bytes(plan),
        caches=caches,
        shared=shared or plan.trees.shared,
        in_memory_bytes=held_bytes,
        hub=model.directory,
        unread_days=model.unread_days,
        striping=model.striping,
        site=_site(plan),
        network_required=plan.settings.network.require,
        partition=plan.node.environ.get("SLURM_JOB_PARTITION"),
        account=plan.node.environ.get("SBATCH_ACCOUNT") or plan.node.environ.get("SLURM_JOB_ACCOUNT"),
    )
    return (*looks.hung, *judge_node(seen))


class _Looks:
    """Looks at paths, each given up when it takes too long.

    Attributes:
        hung: A finding for each that did.
    """

    def __init__(self) -> None:
        self.hung: list[Finding] = []

    async def take(self, look: Callable[[], Seen], what: str, setting: str, otherwise: Seen) -> Seen:
        """Return what a look sees, or something else where it does not come back in time."""
        try:
            return await asyncio.wait_for(offload(look, what), LOOK_S)
        except TimeoutError:
            self.hung.append(
                Finding(
                    "filesystem-hangs",
                    Severity.ERROR,
                    f"A look at {what} did not come back within {LOOK_S:.0f} s: its file system hangs.",
                    f"See whether ls comes back there; another node, or another place as {setting}, may be well.",
                    setting,
                    ExitCode.RETRY_ELSEWHERE,
                )
            )
            return otherwise


def _model(plan: Plan, environment: Mapping[str, str]) -> _Model:
    named = plan.meaning.get("model_path")
    if not named:
        return _Model()
    revision = plan.meaning.get("revision")
    hub = hub_directory(environment, plan.node.home)
    directory = locate(named[0], hub=hub, revision=revision[0] if revision else None).directory
    if directory is None:
        return _Model()
    shards = checkpoint.inspect(directory).shards
    largest = max((path for name in shards.expected if (path := directory / name).is_file()), key=_size, default=None)
    if largest is None:
        return _Model(Path(os.path.realpath(directory)))
    unread_days = (time.time() - largest.stat().st_atime) / _DAY_S
    striping = striping_of(Path(os.path.realpath(largest)))
    return _Model(Path(os.path.realpath(directory)), shards.total_bytes or None, striping, unread_days)


def _real(path: Path) -> Path | None:
    return Path(os.path.realpath(path))


def _size(path: Path) -> int:
    return path.stat().st_size


async def _real_caches(caches: tuple[CacheDirectory, ...], looks: _Looks) -> tuple[CacheDirectory, ...]:
    """Return the cache directories by their real paths; one that cannot be resolved in time is left out."""
    roots = {cache.root: cache for cache in caches}
    real: dict[Path, Path | None] = {}
    for root, cache in roots.items():
        setting = SETTINGS[cache.layer]
        real[root] = await looks.take(partial(_real, root), str(root), setting, None)
    return tuple(
        replace(cache, path=place / cache.path.relative_to(cache.root))
        for cache in caches
        if (place := real[cache.root]) is not None and cache.path.is_relative_to(cache.root)
    )


def _is_in_memory(path: Path, mounts: tuple[FileSystem, ...]) -> bool:
    lies_on = file_system_of(path, mounts)
    return lies_on is not None and lies_on.in_memory


def _size_bytes(directories: Iterable[Path]) -> int:
    """Return how much files below some directories hold, as far as there are not too many of them."""
    total_bytes, left = 0, MOST_FILES
    for directory in directories:
        for above, _, names in os.walk(directory):
            for name in names[:left]:
                try:
                    total_bytes += os.lstat(f"{above}/{name}").st_blocks * 512
                except OSError:  # removed meanwhile
                    continue
            left -= len(names)
            if left <= 0:
                return total_bytes
    return total_bytes


def _rank_bytes(plan: Plan) -> int | None:
    """Return what weights and pool of one rank take; None where nothing is known of the model, or no fraction given."""
    budget = plan.memory.here
    if budget is None or budget.wishes.effective is None:
        return None
    return budget.node.weights_bytes // budget.node.ranks + budget.node.pool_bytes(budget.wishes.effective)


def _number(words: tuple[str, ...] | None) -> int:
    """Return the number that a flag was given; 1 where it was not."""
    return int(words[0]) if words and words[0].isdigit() else 1


def _site(plan: Plan) -> Site | None:
    """Return the cluster that the settings or Slurm name; None where neither does, or no file knows it."""
    if plan.settings.site.name is not None:
        return read_site(plan.settings.site.name)
    here = plan.node.environ.get("SLURM_CLUSTER_NAME")
    known = (read_site(name) for name in site_names())
    return next((site for site in known if here is not None and site.slurm.cluster == here), None)
