"""What came of copying entries from one tree to another."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from entrypoint.warm.copying import REFUSALS, Refusal

_WORDS: Final[Mapping[Refusal, str]] = MappingProxyType(
    {
        Refusal.FULL: "{tree} lies on a file system that is full",
        Refusal.QUOTA: "the quota on {tree} is used up",
        Refusal.READ_ONLY: "{tree} lies on a read-only file system",
        Refusal.FORBIDDEN: "this user may not write in {tree}",
    }
)


@dataclass(frozen=True, slots=True)
class VariableReport:
    """What came of one cache.

    Attributes:
        variable: Its environment variable.
        copied: Entries that the target has now and had not before.
        copied_bytes: What they hold.
        copied_files: How many files they consist of.
        kept: Entries that the target had already.
        unfinished: Entries that somebody may be building, or that changed meanwhile.
        unfit: Entries that are never copied: links that lead out of them, pipes, sockets.
        failed: Entries that could not be copied.
        left: Entries that were not tried, because the whole was stopped.
    """

    variable: str
    copied: int = 0
    copied_bytes: int = 0
    copied_files: int = 0
    kept: int = 0
    unfinished: int = 0
    unfit: int = 0
    failed: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class EntryFailure:
    """One entry that could not be copied.

    Attributes:
        variable: The environment variable of its cache.
        path: Below the cache's directory.
        reason: Why, in the words of the system.
    """

    variable: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a copy was ended before everything was tried.

    Attributes:
        reason: A sentence without its full stop: "/tmp/caches lies on a file system that is full".
        refusal: Why the target takes no more; None where it is not the target's doing, or nobody knows.
    """

    reason: str
    refusal: Refusal | None = None


def refused(tree: Path, refusal: Refusal | None) -> Stop | None:
    """Return that a tree takes no more; None where it did not refuse."""
    return None if refusal is None else Stop(_WORDS[refusal].format(tree=tree), refusal)


def unusable(tree: Path, error: OSError) -> Stop:
    """Return that a tree takes no more, told by an error that it gave."""
    return refused(tree, REFUSALS.get(error.errno or 0)) or Stop(f"{tree} cannot be used: {error}")


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What came of all caches.

    Attributes:
        variables: Each cache that has entries, in the order of the table.
        failures: What could not be copied.
        seconds: How long it took.
        stopped: Why not everything was tried; None where it was.
    """

    variables: tuple[VariableReport, ...] = ()
    failures: tuple[EntryFailure, ...] = ()
    seconds: float = 0.0
    stopped: Stop | None = None

    @property
    def copied(self) -> int:
        """Entries that the target has now and had not before."""
        return sum(variable.copied for variable in self.variables)

    @property
    def copied_bytes(self) -> int:
        """What they hold."""
        return sum(variable.copied_bytes for variable in self.variables)

    @property
    def is_complete(self) -> bool:
        """Whether the target has every finished entry now."""
        return self.stopped is None and not self.failures

    @property
    def is_read_only(self) -> bool:
        """Whether the target may not be written, which is how an operator shares a tree."""
        return self.stopped is not None and self.stopped.refusal in (Refusal.READ_ONLY, Refusal.FORBIDDEN)
