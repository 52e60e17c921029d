"""Counters of out-of-memory kills, as rises since the watch began and since an engine was started."""

from entrypoint.node.memory import MemorySample

_NODE = ""
"""Stands for the node among the paths of groups."""


class OomCounters:
    """What the kernel's counters have risen by.

    A group that was first seen later, since the engine was put into one of its own, counts from then on; one that is
    gone keeps the last number it had.
    """

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._base: dict[str, int] = {}
        self._latest: dict[str, int] = {}

    def note(self, sample: MemorySample) -> None:
        """Take in what a sample shows of the node and of the groups that the engine's processes live in."""
        counts = {group.path: group.oom_kills for group in sample.groups if group.is_own}
        counts[_NODE] = sample.oom_kills
        for name, count in counts.items():
            if count is not None:
                self._first.setdefault(name, count)
                self._base.setdefault(name, count)
                self._latest[name] = count

    def rebase(self) -> None:
        """Count from here on: another engine begins, and older kills were not its own."""
        self._base = dict(self._latest)

    @property
    def node_since_start(self) -> int | None:
        """Kills on the node since the watch began; None where unknown."""
        return self._node_rise(self._first)

    @property
    def groups_since_start(self) -> int | None:
        """Kills in the engine's groups since the watch began; None where unknown."""
        return self._groups_rise(self._first)

    @property
    def node(self) -> int | None:
        """Kills on the node since this engine's start; None where unknown."""
        return self._node_rise(self._base)

    @property
    def groups(self) -> int | None:
        """Kills in the engine's groups since its start; None where unknown."""
        return self._groups_rise(self._base)

    def _node_rise(self, base: dict[str, int]) -> int | None:
        return self._latest[_NODE] - base[_NODE] if _NODE in self._latest else None

    def _groups_rise(self, base: dict[str, int]) -> int | None:
        rises = [count - base[name] for name, count in self._latest.items() if name != _NODE]
        return sum(rises) if rises else None
