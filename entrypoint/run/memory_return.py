"""Memory's return: what a dead engine held comes back after its processes are gone, and the next one needs it.

A driver gives back what was on a device when it gets round to it, and a successor that measures too early sizes its KV
pool by what is not free yet.
"""

import asyncio
from collections.abc import Awaitable, Callable

LOOK_S = 1.0
LONGEST_S = 60.0
SLACK_BYTES = 1 << 30
SLACK_SHARE = 0.05
"""What may be missing, of what there was: a node's memory is never quite what it was, and others use it too."""
RISE_BYTES = 64 << 20
STILL_LOOKS = 3
"""Looks in a row in which no more came back: the rest is held by somebody else."""


async def wait_for_return(before_bytes: int, look: Callable[[], Awaitable[int | None]]) -> int:
    """Return when memory is back, or no more of it comes: with the bytes that are missing, 0 where none are.

    Args:
        before_bytes: What was left for use before the engine was started.
        look: Returns what is left for use now; None where that cannot be known, which is not waited for.
    """
    wanted_bytes = before_bytes - int(max(SLACK_BYTES, SLACK_SHARE * before_bytes))
    most_bytes, still_looks = 0, 0
    for _ in range(int(LONGEST_S / LOOK_S)):
        now_bytes = await look()
        if now_bytes is None or now_bytes >= wanted_bytes:
            return 0
        still_looks = 0 if now_bytes > most_bytes + RISE_BYTES else still_looks + 1
        most_bytes = max(most_bytes, now_bytes)
        if still_looks >= STILL_LOOKS:
            break
        await asyncio.sleep(LOOK_S)
    return before_bytes - most_bytes
