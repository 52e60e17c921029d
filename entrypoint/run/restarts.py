"""Which deaths are worth another start, how often, and after what pause."""

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.settings.schema import RestartSettings
from entrypoint.verdict.verdict import Verdict

_PASSING = frozenset({Cause.NETWORK, Cause.HANG})
"""Causes that can be gone a moment later, even where nothing has ever worked."""
_SURE = frozenset({Confidence.CERTAIN, Confidence.PROBABLE})


def worth_a_restart(verdict: Verdict, *, was_ready: bool, restarts: int) -> bool:
    """Return whether starting again in place can help.

    What served once can serve again, unless its end says that the same would only end the same: settings do not change
    by themselves, and memory that was too small does not grow. What never served is tried again once, and only after
    a failure that is known to pass, such as a peer that came too late: its second load finds warm caches.

    Args:
        verdict: Why the engine ended.
        was_ready: It had served.
        restarts: How often it was started again so far.
    """
    if verdict.retry is not Retry.HERE:
        return False
    return was_ready or (restarts == 0 and verdict.cause in _PASSING and verdict.confidence in _SURE)


class RestartBudget:
    """Restarts within a window of time.

    Args:
        settings: The ``[restart]`` table.
    """

    def __init__(self, settings: RestartSettings) -> None:
        self._settings = settings
        self._spent_at: list[float] = []
        self.total = 0

    def _in_window(self, now: float) -> list[float]:
        return [at for at in self._spent_at if now - at < self._settings.window_s]

    def allows(self, now: float) -> bool:
        """Return whether another restart may happen now."""
        return len(self._in_window(now)) < self._settings.max

    def spend(self, now: float) -> float:
        """Count a restart and return the seconds to wait before it: none for the first, then doubling."""
        self._spent_at = self._in_window(now)
        earlier = len(self._spent_at)
        self._spent_at.append(now)
        self.total += 1
        return 0.0 if earlier == 0 else self._settings.backoff_s * 2.0 ** (earlier - 1)
