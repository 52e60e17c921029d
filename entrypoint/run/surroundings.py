"""What a run talks to, and how its parts tell each other what happened."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from entrypoint.engine.flag_store import FlagStore
from entrypoint.engine.flags import FlagTable
from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.plan.plan import Plan
from entrypoint.run.endings import Ending
from entrypoint.run.memory_watch import MemoryWatch
from entrypoint.run.states import Happening
from entrypoint.settings.redaction import Masker
from entrypoint.settings.secrets import Secrets
from entrypoint.tell.board import Board
from entrypoint.tell.events import EventLog


class Announcer(Protocol):
    """Publishes where clients reach the server."""

    def announce(self) -> None:
        """Clients may come."""

    def withdraw(self) -> None:
        """Clients shall stay away."""


class Post(Protocol):
    """Puts something that happened into the run's queue."""

    def __call__(self, happening: Happening, ending: Ending | None = None) -> None:
        """Post a happening, and why the run would end with it, where it would."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run talks to.

    Attributes:
        secrets: The keys.
        board: Kept current for the health endpoints.
        events: Where what happens is told.
        masker: Removes secrets.
        store: Where lists of the engine's flags are kept.
        replan: Makes the plan again once the engine has told its flags.
        announcer: Publishes the endpoint.
        signatures: What lines of the engine's log can mean.
        memory: Watches memory.
        rank: Number of this rank.
    """

    secrets: Secrets
    board: Board
    events: EventLog
    masker: Masker
    store: FlagStore
    replan: Callable[[FlagTable], Plan]
    announcer: Announcer
    signatures: SignatureIndex
    memory: MemoryWatch
    rank: int = 0
