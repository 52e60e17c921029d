"""Signatures: texts in an engine's log that are known to mean something."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from entrypoint.cause import Cause


class Role(StrEnum):
    """What a signature says about the end of a run."""

    ROOT = "root"
    """It can be the reason by itself."""
    CASCADE = "cascade"
    """It follows from another failure, of a peer or a child, and is never the reason."""
    CONFIRMATION = "confirmation"
    """It makes a cause certain that other signs suggest."""
    BENIGN = "benign"
    """It looks bad and ends nothing."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One row of the signature file.

    Attributes:
        id: Stable identifier, such as ``load.skew``.
        pattern: Searched in a line's message, behind time, rank and colours; its named groups are fields.
        literals: Texts of which every matching line holds at least one; an index finds them first.
        role: What it says about the end of a run.
        cause: The kind of its cause.
        because: The cause in one sentence; ``{field}`` stands for a named group.
        remedy: What to change, in one sentence.
        source: Where it was seen: a file of the engine, or an issue.
        versions: Versions of the engine that print it, in words.
    """

    id: str
    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    role: Role
    cause: Cause
    because: str
    remedy: str
    source: str
    versions: str


@dataclass(frozen=True, slots=True)
class SignatureHit:
    """A line that bears a signature.

    Attributes:
        signature: Which one.
        line: The line without colours, shortened when very long, secrets masked.
        number: Number of the line in its log, from 1.
        unix_s: When it was printed, by its own time stamp or the last one before it; None where there is none.
        rank_tags: Which rank says it, such as ``PP1 TP3``.
        fields: The named groups of the pattern that took part.
        health_after: Signs of an engine that goes on as usual, in the same log after this line: batches, answered
            requests. Whoever serves on was not ended by it.
    """

    signature: Signature
    line: str
    number: int
    unix_s: float | None = None
    rank_tags: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    health_after: int = 0
