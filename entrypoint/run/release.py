"""The release: how a running engine is brought to an end without taking memory with it into its grave.

SIGKILL in the middle of a release is how memory stays taken on a GPU, so the engine is asked first (SIGTERM to its
main process) and gets the time to do it. SGLang looks for that signal every 5 s. An idle engine that has not begun
within the time allowed for it is frozen, so that it cannot begin any more, looked at once more, and only then killed.
"""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from entrypoint.run.generation import Generation

LAST_LINES_S = 0.1
"""Seconds for lines that a frozen engine wrote before it froze to be read from the pipe."""


class ReleaseStep(StrEnum):
    """What a release came to."""

    NOTHING_TO_RELEASE = "nothing-to-release"
    """The engine has no SIGTERM handler yet: it was killed, as its own default would have it."""
    NOT_BEGUN = "not-begun"
    """The engine was idle and had not begun: it was killed while it could not."""
    TIME_OVER = "time-over"
    """The engine had begun, or had work, and did not finish in time: it was killed."""


@dataclass(frozen=True, slots=True)
class ReleaseLimits:
    """How long a release may take.

    Attributes:
        begin_s: Seconds in which an idle engine must begin.
        finish_s: Seconds in which all must be over.
    """

    begin_s: float
    finish_s: float


async def release(generation: Generation, limits: ReleaseLimits, *, idle: bool) -> ReleaseStep:
    """Ask the engine to end, and kill it when it does not; cancelled by its end.

    Args:
        generation: The engine.
        limits: How long it may take.
        idle: No request is in flight, so that nothing is lost when it is killed before it begins.

    Returns:
        Why it was killed.
    """
    child = generation.child
    if not child.handles_sigterm():
        child.kill()
        return ReleaseStep.NOTHING_TO_RELEASE
    child.terminate()
    deadline = asyncio.get_running_loop().time() + limits.finish_s
    if idle and limits.begin_s < limits.finish_s and not await _begins(generation, limits.begin_s):
        child.freeze()
        if not await _begins(generation, LAST_LINES_S):
            child.kill()
            return ReleaseStep.NOT_BEGUN
        child.thaw()
    await asyncio.sleep(max(0.0, deadline - asyncio.get_running_loop().time()))
    child.kill()
    return ReleaseStep.TIME_OVER


async def _begins(generation: Generation, within_s: float) -> bool:
    try:
        await asyncio.wait_for(generation.release_begun.wait(), within_s)
    except TimeoutError:
        return False
    return True
