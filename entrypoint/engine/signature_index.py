"""The index of signatures: which lines bear one, in one pass over the text whatever the number of signatures."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from entrypoint.engine.literal_index import LiteralIndex
from entrypoint.engine.log import LITERALS
from entrypoint.engine.log_line import Statement, statements
from entrypoint.engine.signature import Signature
from entrypoint.engine.signature_book import signatures_with

LINE_CHARACTERS = 4096
"""How much of a line the patterns see: what a failure has to say stands at its beginning."""
_LINE_BYTES = 4 * LINE_CHARACTERS


@dataclass(frozen=True, slots=True)
class Suspect:
    """A line that holds a literal, and may bear a signature or a fact.

    Attributes:
        begin: Where it begins in the text that was searched.
        end: Where it ends, without its line end.
        signatures: Which signatures it may bear, by their place in the index.
        may_be_fact: It holds a literal of the engine's ordinary wordings.
    """

    begin: int
    end: int
    signatures: tuple[int, ...]
    may_be_fact: bool


@dataclass(frozen=True, slots=True)
class Match:
    """A line that bears a signature.

    Attributes:
        signature: Which one.
        statement: The line, or the part of it that one process said.
        fields: The named groups that took part.
    """

    signature: Signature
    statement: Statement
    fields: Mapping[str, str]


class SignatureIndex:
    """Finds signatures in an engine's output.

    The literals of all signatures are looked for together, and those of the engine's ordinary wordings with them, so
    that whoever needs both reads the text once. Patterns are tried only on lines that hold one of their literals.

    Args:
        signatures: What to look for.
    """

    def __init__(self, signatures: Iterable[Signature]) -> None:
        self.signatures = tuple(signatures)
        owners: dict[bytes, set[int]] = {literal: set() for literal in LITERALS}
        for number, signature in enumerate(self.signatures):
            for literal in signature.literals:
                owners.setdefault(literal.encode(), set()).add(number)
        self._literals = LiteralIndex(tuple(owners))
        self._owners = tuple(owners.values())
        self._wordings = len(LITERALS)

    def suspects(self, lines: bytes) -> Iterator[Suspect]:
        r"""Yield the lines that hold a literal, in their order.

        Args:
            lines: Complete lines, each ended by ``\n`` or ``\r``.
        """
        for begin, end, found in self._literals.lines(lines):
            owners = frozenset[int]().union(*(self._owners[literal] for literal in found))
            yield Suspect(begin, end, tuple(sorted(owners)), min(found) < self._wordings)

    def match(self, line: bytes, number: int) -> Match | None:
        """Return what a line says, if it bears the signature at this place of the index."""
        signature = self.signatures[number]
        text = line[:_LINE_BYTES].decode("utf-8", "replace")[:LINE_CHARACTERS]
        for statement in statements(text):
            match = signature.pattern.search(statement.message)
            if match is not None:
                fields = {name: value for name, value in match.groupdict().items() if value is not None}
                return Match(signature, statement, MappingProxyType(fields))
        return None

    def matches(self, lines: bytes) -> Iterator[Match]:
        """Yield every signature of every line, in the lines' order; for short texts."""
        for suspect in self.suspects(lines):
            for number in suspect.signatures:
                match = self.match(lines[suspect.begin : suspect.end], number)
                if match is not None:
                    yield match


def signature_index(own: Path | None) -> SignatureIndex:
    """Return the index of the packaged signatures, with a user's rows over them.

    Args:
        own: The user's file; None without one.

    Raises:
        SuperviseError: The file cannot be read, or a row is wrong.
    """
    return SignatureIndex(signatures_with([own] if own else []))
