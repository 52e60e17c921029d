"""The keeper of caches: warms them before the engine starts, and keeps what it builds for other jobs."""

import asyncio
import time
from collections.abc import Mapping

from entrypoint.findings import Finding
from entrypoint.node.filesystems import file_systems
from entrypoint.offload import offload
from entrypoint.plan.plan import Plan
from entrypoint.plan.rules.after_start import built_anyway
from entrypoint.run import orphans
from entrypoint.run.surroundings import Surroundings
from entrypoint.warm import layers
from entrypoint.warm.inventory import Inventory, sizes
from entrypoint.warm.jit import learned
from entrypoint.warm.transfer import Manner
from entrypoint.warm.warmup import Warmed, WarmHooks, warm

QUIET_S = 10.0
"""What was written within this time may still be in the making, and is kept the next time."""
LAST_QUIET_S = 1.0
"""The same once the engine is gone: what else builds here builds within its locks."""
LAST_S = 4.0
"""Seconds that the end of a run may take for it; Slurm kills 30 s after it has asked, and draining takes 25 of them."""
LOOK_S = 2.0
"""Seconds that counting the caches may take."""
PROGRESS_EVERY_S = 10.0


class CacheKeeper:
    """Looks after the caches of a run.

    Args:
        around: What the run talks to.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._warmed: Warmed | None = None
        self._told_at = float("-inf")

    async def warm(self, plan: Plan) -> Warmed:
        """Make caches and kernels ready; what it returns has the plan to go on with.

        Raises:
            SuperviseError: The user's own file of steps cannot be used.
        """
        hooks = WarmHooks(self._tell, self._on_progress, orphans.own, orphans.disown)
        secrets = self._around.secrets
        warmed = self._warmed = await warm(plan, lambda made: made.engine_environment(secrets), hooks, again=False)
        self._around.events.tell("warm", summary=warmed.summary, key=str(plan.trees.key.directory))
        self._around.board.warm = {"summary": warmed.summary, "vouched": warmed.vouched}
        return warmed

    def _tell(self, event: str, fields: Mapping[str, object]) -> None:
        self._around.events.tell(event, **fields)

    def _on_progress(self, text: str, done: int, total: int) -> None:
        """Show progress; may be told by another thread."""
        self._around.board.progress = text
        now = time.monotonic()
        if now - self._told_at >= PROGRESS_EVERY_S:
            self._told_at = now
            self._around.events.tell("progress", state="warming", progress=text, done=done, total=total)

    def judge_built(self, built: tuple[str, ...]) -> tuple[Finding, ...]:
        """Return what an engine built although its kernels were built ahead.

        Args:
            built: What it built, by name.
        """
        return built_anyway(built) if self._warmed is not None and self._warmed.vouched else ()

    async def keep(self, plan: Plan, every_s: float) -> None:
        """Keep what the engine has built, now and from time to time; ends by cancellation, or where it is kept once.

        Args:
            plan: The plan.
            every_s: Seconds between two times; 0 for just one.
        """
        while True:
            await offload(lambda: self._publish(plan, QUIET_S), "publish")
            await offload(lambda: self._count(plan), "caches")
            if not every_s:
                return
            await asyncio.sleep(every_s)

    async def close(self, plan: Plan, built: tuple[str, ...]) -> None:
        """Keep what the engine has built, in bounded time, and use this node's tree no longer.

        Args:
            plan: The plan.
            built: What the engine built, by name.
        """
        if self._warmed is None or self._warmed.ground is None:
            return
        try:
            async with asyncio.timeout(LAST_S):
                await offload(lambda: self._publish(plan, LAST_QUIET_S), "publish")
                await offload(lambda: self._learn(plan, built), "learn")
        except TimeoutError:
            self._around.events.warn("caches-unkept", reason=f"keeping them took over {LAST_S:.0f} s")
        self._warmed.close()

    def _publish(self, plan: Plan, quiet_s: float) -> None:
        manner = Manner(time.time(), quiet_s=quiet_s)
        report = layers.publish(plan.caches, plan.trees.local, plan.trees.shared, manner)
        if report.copied:
            self._around.events.tell("caches-published", entries=report.copied, bytes=report.copied_bytes)
        if not report.is_complete:
            reason = report.stopped.reason if report.stopped else report.failures[0].reason
            self._around.events.tell("caches-unkept", reason=reason)

    def _learn(self, plan: Plan, built: tuple[str, ...]) -> None:
        """Write down which modules an engine built, for the next start; a tree of others is left alone."""
        modules = [name for name in built if not name.startswith("/")]
        if not modules:
            return
        try:
            new = learned.add(plan.trees.shared, modules)
        except OSError:
            new = learned.add(plan.trees.local, modules)
        if new:
            self._around.events.tell("learned", modules=sorted(new))

    def _count(self, plan: Plan) -> None:
        inventory = sizes(
            plan.caches, plan.trees.local, file_systems(), deadline_s=time.monotonic() + LOOK_S, clock=time.monotonic
        )
        board = self._around.board
        board.warm = {**(board.warm or {}), "caches": caches_data(inventory)}


def caches_data(inventory: Inventory) -> dict[str, object]:
    """Return what caches take up as JSON data."""
    return {
        "bytes": inventory.size_bytes,
        "in_memory_bytes": inventory.in_memory_bytes,
        "is_complete": inventory.is_complete,
        "by_variable": {each.variable: each.size_bytes for each in inventory.caches if each.files},
        "looked_unix_s": time.time(),
    }
