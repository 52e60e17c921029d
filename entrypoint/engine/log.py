"""What SGLang's log says: lines are recognised, facts come out.

A line is looked at only when it holds a literal of a rule, and a rule must match where the message *begins*: a
user's prompt that is logged may say anything further on in the line.
"""

import re
from collections.abc import Iterable, Iterator
from types import MappingProxyType

from entrypoint.engine.log_facts import FactKind, LogFact
from entrypoint.engine.log_wordings import ARGUMENT, RULES

__all__ = ["FactKind", "LogFact", "LogScanner"]

KEPT_LINE_CHARACTERS = 4096
"""How much of its line a fact keeps; the arguments of the engine alone are 20 KB."""

_PROGRESS = frozenset({FactKind.LOAD_PROGRESS, FactKind.CAPTURE_PROGRESS})
_RARE_BYTES = (b"_", b"=", b"%", b"!", b"A", b"L", b"M", b"U", b"V")
"""Bytes that lines about requests seldom hold. One byte is found many times faster than a longer literal."""


def _by_rare_byte() -> dict[bytes, list[bytes]]:
    """Sort the literals by a rare byte that they hold; without one, by the empty text that is everywhere."""
    literals: dict[bytes, list[bytes]] = {}
    for literal in dict.fromkeys(rule.literal for rule in RULES):
        rare = next((byte for byte in _RARE_BYTES if byte in literal), b"")
        literals.setdefault(rare, []).append(literal)
    return literals


_LITERALS = _by_rare_byte()
_PREFIX = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?P<tags>(?: [A-Z_]+\d+)*)\] ")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


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
    for line in _suspects(data):
        text = _ANSI.sub("", line.decode("utf-8", "replace"))
        for part in _statements(text):
            fact = _recognise(part)
            if fact is not None:
                yield fact


def _suspects(data: bytes) -> Iterator[bytes]:
    """Yield the lines that hold a literal of any rule, in their order."""
    found = [literal for rare, literals in _LITERALS.items() if rare in data for literal in literals if literal in data]
    if not found:
        return
    data = data.replace(b"\r", b"\n")
    spans: set[tuple[int, int]] = set()
    for literal in found:
        position = data.find(literal)
        while position >= 0:
            end = data.find(b"\n", position)
            end = len(data) if end < 0 else end
            spans.add((data.rfind(b"\n", 0, position) + 1, end))
            position = data.find(literal, end)
    for start, end in sorted(spans):
        yield data[start:end]


def _statements(text: str) -> Iterator[str]:
    """Split a line that one process began and another one ended.

    A bar without a line's end is followed by whatever the next rank has to say. A line with the engine's own
    prefix is never split: what stands further on may be a user's text.
    """
    later = None if text.startswith("[") else _PREFIX.search(text)
    if later is None:
        yield text
        return
    yield text[: later.start()]
    yield text[later.start() :]


def _recognise(line: str) -> LogFact | None:
    prefix = _PREFIX.match(line)
    message = line[prefix.end() :] if prefix else line
    tags = prefix["tags"].strip() if prefix else ""
    for rule in RULES:
        match = rule.pattern.match(message)
        if match is not None:
            fields = _arguments(message) if rule.kind is FactKind.SERVER_ARGUMENTS else match.groupdict()
            given = {name: value for name, value in fields.items() if value is not None}
            return LogFact(rule.kind, MappingProxyType(given), line[:KEPT_LINE_CHARACTERS], tags)
    return None


def _arguments(message: str) -> dict[str, str | None]:
    arguments: dict[str, str | None] = {}
    for match in ARGUMENT.finditer(message):
        value = match["text"] if match["quote"] else match["word"]
        arguments.setdefault(match["name"], None if value == "None" else value)
    return arguments
