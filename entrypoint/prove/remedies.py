"""How a report speaks of a parser: what is set, what would have read the text, what to set instead."""

from dataclasses import dataclass
from typing import Final

from entrypoint.prove.syntax import Syntax

READERS_NAMED = 3
"""Parsers named beside the one to set; twenty names would help nobody."""


@dataclass(frozen=True, slots=True)
class ParserRole:
    """One of the two kinds of parsers that a server has.

    Attributes:
        noun: What people call it.
        setting: Its setting.
        flag: The engine's flag.
    """

    noun: str
    setting: str
    flag: str


TOOL_CALL: Final = ParserRole("tool-call parser", "engine.tool_call_parser", "--tool-call-parser")
REASONING: Final = ParserRole("reasoning parser", "engine.reasoning_parser", "--reasoning-parser")


@dataclass(frozen=True, slots=True)
class ParserInUse:
    """A server's parser, as far as the server tells.

    Attributes:
        role: Which of the two.
        name: Its name, or None when it is not set or not known.
        known: Whether the server tells.
    """

    role: ParserRole
    name: str | None
    known: bool

    @property
    def is_absent(self) -> bool:
        """Whether the server says that it has none."""
        return self.known and self.name is None

    def subject(self) -> str:
        """Return words that can begin a clause about it."""
        return f"the {self.role.noun} {self.name!r}" if self.name else f"the {self.role.noun}"

    def clause(self) -> str:
        """Say what is set."""
        if not self.known:
            return f"the server does not say which {self.role.noun} it uses"
        return f"the {self.role.noun} is {self.name!r}" if self.name else f"no {self.role.noun} is set"

    def reads(self, syntax: Syntax | None) -> bool:
        """Whether it is one of the parsers that read a syntax."""
        return syntax is not None and self.name in syntax.parsers

    def fault(self, syntax: Syntax | None) -> str:
        """Say why a text in this syntax was left as it is, in a clause."""
        if not self.known:
            return f"the {self.role.noun} is missing or wrong"
        if self.name is None:
            return f"no {self.role.noun} is set"
        if self.reads(syntax):
            return f"the {self.role.noun} {self.name!r} reads this syntax, yet left it"
        return f"the {self.role.noun} {self.name!r} does not read it"

    def reading(self, syntax: Syntax | None, partner: str | None = None) -> str:
        """Say which parsers would have read the text.

        Args:
            syntax: The text's syntax, when it is recognised.
            partner: The reader to name first, if it is one of the syntax's.
        """
        if syntax is None:
            return "Its syntax is not recognised."
        best, others = _ranked(syntax, partner)
        also = f" ({', '.join(others)} read it too)" if others else ""
        return f"The text is written in the syntax that `{self.role.flag} {best}` reads{also}."

    def remedy(self, syntax: Syntax | None, partner: str | None = None) -> str:
        """Say what to set; the arguments are those of `reading`."""
        role = self.role
        if syntax is None:
            return (
                f'Set {role.setting} = "auto" ({role.flag} auto), which reads the chat template, or name the parser '
                "of the model's family."
            )
        if self.reads(syntax):
            return "See whether the text is complete and well-formed below: a parser leaves what it cannot finish."
        best, _ = _ranked(syntax, partner)
        return f'Set {role.setting} = "{best}" ({role.flag} {best}).'


def _ranked(syntax: Syntax, partner: str | None) -> tuple[str, tuple[str, ...]]:
    best = partner if partner in syntax.parsers else syntax.parsers[0]
    return best, tuple(parser for parser in syntax.parsers if parser != best)[:READERS_NAMED]
