"""The contest for a key: of all that need the same kernels at once, one builds, and the others wait for its stamp."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from entrypoint.offload import offload
from entrypoint.warm.jit.lease import RENEW_S, Holder, Lease

LOOK_S = 0.25
"""Between two looks at another's lease: over machines a file can only be looked at again and again."""
Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class Contest(Generic[Built]):
    """What those who take part have in common.

    Attributes:
        tree: The tree that is built for; must exist and be writable.
        me: Who takes part.
        settled: Returns what another has published; None as long as nobody has.
        build: Builds, and publishes it before it returns.
        on_wait: Told whom we wait for, and how far that one is.
    """

    tree: Path
    me: Holder
    settled: Callable[[], Built | None]
    build: Callable[[Lease], Awaitable[Built]]
    on_wait: Callable[[Holder, str], None]


async def settle(contest: Contest[Built]) -> Built:
    """Return what was built, by ourselves or by another.

    Raises:
        OSError: The tree cannot be written.
    """
    lease = Lease(contest.tree, contest.me)
    while True:
        holder = await offload(lease.take, "lease")
        # Looked at after the lease: whoever gave it back has published before.
        found = await offload(contest.settled, "stamp")
        if holder is None:
            try:
                return found if found is not None else await _build(contest, lease)
            finally:
                await offload(lease.give_back, "lease")
        if found is not None:
            return found
        contest.on_wait(holder, await offload(lease.heard, "lease"))
        await asyncio.sleep(LOOK_S)


async def _build(contest: Contest[Built], lease: Lease) -> Built:
    renewing = asyncio.create_task(_renew(lease), name="lease")
    try:
        return await contest.build(lease)
    finally:
        renewing.cancel()


async def _renew(lease: Lease) -> None:
    while True:
        await asyncio.sleep(RENEW_S)
        with contextlib.suppress(OSError):  # a file system that comes back: until then others may build the same
            await offload(lease.renew, "lease")
