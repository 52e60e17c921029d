"""Works: background tasks that belong to states and end with them."""

import asyncio
from collections.abc import Callable, Coroutine
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from entrypoint.run.states import State


@dataclass(frozen=True, slots=True)
class _Work:
    task: asyncio.Task[None]
    homes: AbstractSet[State]


class Works:
    """The tasks of a run.

    Args:
        on_failure: Given what a task raised: a fault of the supervisor itself, never of the engine.
    """

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._works: set[_Work] = set()

    def start(self, name: str, work: Coroutine[Any, Any, None], homes: AbstractSet[State]) -> None:
        """Start a task that lives while the run is in one of its home states."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        entry = _Work(task, frozenset(homes))
        self._works.add(entry)
        task.add_done_callback(lambda done: self._ended(entry, done))

    def leave(self, state: State | None) -> None:
        """Cancel every task that is not at home in a state; all of them for None."""
        for work in tuple(self._works):
            if state not in work.homes:
                self._works.discard(work)
                work.task.cancel()

    def _ended(self, entry: _Work, task: asyncio.Task[None]) -> None:
        self._works.discard(entry)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
