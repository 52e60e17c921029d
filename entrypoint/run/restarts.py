"""How often a server may be started again, and after what pause."""

from entrypoint.settings.schema import RestartSettings


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
