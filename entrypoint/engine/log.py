"""What SGLang's log says: lines are recognised, facts come out.

A line is looked at only when it holds a literal of a rule, and a rule must match where the message *begins*: a
user's prompt that is logged may say anything further on in the line.
"""

from collections.abc import Iterable, Iterator
from types import MappingProxyType

from entrypoint.engine.literal_index import LiteralIndex
from entrypoint.engine.log_facts import FactKind, LogFact
from entrypoint.engine.log_line import Statement, statements
from entrypoint.engine.log_wordings import ARGUMENT, RULES

__all__ = ["LITERALS", "FactKind", "LogFact", "LogScanner", "facts_in"]

KEPT_LINE_CHARACTERS = 4096
"""How much of its line a fact keeps; the arguments of the engine alone are 20 KB."""

_PROGRESS = frozenset({FactKind.LOAD_PROGRESS, FactKind.CAPTURE_PROGRESS})
LITERALS = tuple(dict.fromkeys(rule.literal for rule in RULES))
"""Texts of which every line with a fact holds one."""
_INDEX = LiteralIndex(LITERALS)


class LogScanner:
    """Finds facts in the engine's output."""

    def __init__(self) -> None:
        self._announced: list[LogFact] = []

    def scan(self, lines: bytes) -> list[LogFact]:
        r"""Return the facts in complete lines, in their order.

        Of a progress bar that is redrawn several times in a row, the last state counts.

        Args:
            lines: Any number of lines, each ended by ``\n`` or ``\r``.
        """
        facts = _without_redraws(_facts(lines))
        for announced in self._announced:
            known = next((fact for fact in facts if _says_the_same(fact, announced)), None)
            if known is not None:
                facts.remove(known)
        if lines:
            self._announced = []
        return facts

    def peek(self, begun_line: bytes) -> list[LogFact]:
        """Return the facts in a line that has stopped growing before its end.

        A progress bar ends its line only with the next state. The same facts are not told again when the line
        is complete; one that its rest adds something to is.
        """
        facts = [
            fact
            for fact in _without_redraws(_facts(begun_line))
            if not any(_says_the_same(fact, announced) for announced in self._announced)
        ]
        self._announced += facts
        return facts


def _says_the_same(one: LogFact, other: LogFact) -> bool:
    return (one.kind, one.fields, one.rank_tags) == (other.kind, other.fields, other.rank_tags)


def _without_redraws(facts: Iterable[LogFact]) -> list[LogFact]:
    kept: list[LogFact] = []
    for fact in facts:
        if kept and fact.kind in _PROGRESS and _is_redraw(fact, kept[-1]):
            kept.pop()
        kept.append(fact)
    return kept


def _is_redraw(fact: LogFact, before: LogFact) -> bool:
    return fact.kind is before.kind and fact.fields["bar"] == before.fields["bar"]


def _facts(data: bytes) -> Iterator[LogFact]:
    for begin, end, _ in _INDEX.lines(data):
        yield from facts_in(data[begin:end])


def facts_in(line: bytes) -> Iterator[LogFact]:
    """Yield what one line says; more than one thing where a second process spoke on in the line of a first."""
    for statement in statements(line.decode("utf-8", "replace")):
        fact = _recognise(statement)
        if fact is not None:
            yield fact


def _recognise(statement: Statement) -> LogFact | None:
    message = statement.message
    for rule in RULES:
        match = rule.pattern.match(message)
        if match is not None:
            fields = _arguments(message) if rule.kind is FactKind.SERVER_ARGUMENTS else match.groupdict()
            given = {name: value for name, value in fields.items() if value is not None}
            line = statement.text[:KEPT_LINE_CHARACTERS]
            return LogFact(rule.kind, MappingProxyType(given), line, statement.rank_tags)
    return None


def _arguments(message: str) -> dict[str, str | None]:
    arguments: dict[str, str | None] = {}
    for match in ARGUMENT.finditer(message):
        value = match["text"] if match["quote"] else match["word"]
        arguments.setdefault(match["name"], None if value == "None" else value)
    return arguments
