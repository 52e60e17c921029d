"""What the engine would refuse or warn about in a command line, found before it starts.

A wrong flag ends the engine with status 2 on every rank, after a minute of importing; here it costs nothing.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from entrypoint.engine.flags import Ambiguous, Flag, FlagKind, FlagTable, Use


class FlagProblemKind(StrEnum):
    """What is wrong with one use of a flag."""

    UNKNOWN = "unknown"
    """The engine has no such flag, or a word belongs to none."""
    AMBIGUOUS = "ambiguous"
    """Several flags begin with it."""
    RETIRED = "retired"
    """The engine knows the flag only to refuse it."""
    NO_VALUE = "no-value"
    """The flag needs a value that does not follow."""
    BAD_VALUE = "bad-value"
    """The value cannot be read as the flag's type, or the flag takes none."""
    NOT_A_CHOICE = "not-a-choice"
    """The value is none of those allowed."""
    DEPRECATED = "deprecated"
    """The flag still works and will be removed."""
    ABBREVIATED = "abbreviated"
    """The flag is cut short: a new version with a similar flag would refuse it."""
    IGNORED = "ignored"
    """The engine accepts it and does nothing."""

    @property
    def refused(self) -> bool:
        """Whether the engine would end at once; else it works, for now."""
        return self not in {FlagProblemKind.DEPRECATED, FlagProblemKind.ABBREVIATED, FlagProblemKind.IGNORED}


@dataclass(frozen=True, slots=True)
class FlagProblem:
    """One thing wrong with a command line.

    Attributes:
        kind: What is wrong.
        spelling: The flag as the user wrote it, without its value.
        message: What is the case, in one sentence.
        remedy: What to write instead, in one sentence.
        nearest: The flag or value that was probably meant.
    """

    kind: FlagProblemKind
    spelling: str
    message: str
    remedy: str
    nearest: str | None = None


def check(table: FlagTable, argv: Sequence[str]) -> tuple[FlagProblem, ...]:
    """Return the problems of a command line (without the program), in its order.

    The value of a flag that takes any text is never repeated in a message: it may be a secret.
    """
    uses = table.uses(argv)
    return tuple(
        problem
        for previous, use in pairwise((None, *uses))
        if use is not None and not _is_a_value_with_a_dash(previous, use)
        for problem in _problems(table, use)
    )


def _is_a_value_with_a_dash(previous: Use | None, use: Use) -> bool:
    """Return whether an unknown ``-word`` was meant as the value that the flag before it lacks."""
    return previous is not None and previous.lacks_a_value and use.found is None and not use.spelling.startswith("--")


def _problems(table: FlagTable, use: Use) -> Iterator[FlagProblem]:
    """Yield the problems of one use."""
    if use.found is None:
        yield _unknown(table, use)
    elif isinstance(use.found, Ambiguous):
        yield _ambiguous(use, use.found)
    else:
        yield from _spelling_problems(use, use.found)
        yield from _value_problems(use, use.found)


def _unknown(table: FlagTable, use: Use) -> FlagProblem:
    """Describe a flag that the engine does not have."""
    if not use.spelling:
        return FlagProblem(
            FlagProblemKind.UNKNOWN,
            "",
            f"The engine's arguments begin with {_count(use.words)} that belong to no flag.",
            "Begin with a flag, such as --model-path.",
        )
    nearest = _nearest(use.spelling.replace("_", "-"), _current_spellings(table))
    return FlagProblem(
        FlagProblemKind.UNKNOWN,
        use.spelling,
        f"SGLang {table.version} has no flag {use.spelling}.",
        f"Write {nearest}, if that is meant." if nearest else "Leave it out.",
        nearest,
    )


def _ambiguous(use: Use, found: Ambiguous) -> FlagProblem:
    """Describe an abbreviation of several flags; the shortest of them is the most similar."""
    nearest = min(found.candidates, key=len)
    return FlagProblem(
        FlagProblemKind.AMBIGUOUS,
        use.spelling,
        f"{use.spelling} could mean {_listed(found.candidates)}.",
        f"Write the flag in full, such as {nearest}.",
        nearest,
    )


def _spelling_problems(use: Use, flag: Flag) -> Iterator[FlagProblem]:
    """Yield what is wrong with how the flag is written, or that it is written at all."""
    if use.spelling not in flag.spellings:
        full = next(spelling for spelling in flag.spellings if spelling.startswith(use.spelling))
        yield FlagProblem(
            FlagProblemKind.ABBREVIATED,
            use.spelling,
            f"{use.spelling} works only while no other flag begins like that; it means {full}.",
            f"Write {full}.",
            full,
        )
    if flag.retired or flag.deprecated:
        yield FlagProblem(
            FlagProblemKind.RETIRED if flag.retired else FlagProblemKind.DEPRECATED,
            use.spelling,
            f"{use.spelling} {'was removed from the engine' if flag.retired else 'is deprecated'}.",
            f"Write {flag.replacement} instead." if flag.replacement else "Leave it out.",
            flag.replacement,
        )
    if flag.dest == _CONFIG and (use.attached is not None or use.spelling != f"--{_CONFIG}"):
        yield FlagProblem(
            FlagProblemKind.IGNORED,
            use.spelling,
            "The engine reads its configuration file only where --config and the file are two words in full.",
            "Write --config FILE.",
            f"--{_CONFIG}",
        )


def _value_problems(use: Use, flag: Flag) -> Iterator[FlagProblem]:
    """Yield what is wrong with the words that follow the flag."""
    if use.lacks_a_value:
        yield FlagProblem(
            FlagProblemKind.NO_VALUE,
            use.spelling,
            f"{use.spelling} needs a value, and none follows.",
            f"Add one; a value that begins with a dash must be attached: {use.spelling}=VALUE.",
        )
    if flag.kind is FlagKind.BARE and use.attached is not None:
        yield FlagProblem(
            FlagProblemKind.BAD_VALUE,
            use.spelling,
            f"{use.spelling} takes no value, and one is attached.",
            f"Write {use.spelling} alone, or leave it out.",
        )
        return
    for value in use.values:
        yield from _value_problem(use, flag, value)
    if use.strays:
        yield FlagProblem(
            FlagProblemKind.UNKNOWN,
            use.spelling,
            f"After {use.spelling} and its value, {_count(use.strays)} belong to no flag.",
            "Quote a value that holds spaces, and remove what is too much.",
        )


def _value_problem(use: Use, flag: Flag, value: str) -> Iterator[FlagProblem]:
    """Yield what is wrong with one value, if anything."""
    reader = _READERS.get(flag.type_name)
    if reader is None:
        return  # a converter of the engine's own: only the engine knows what it accepts
    try:
        read = reader.read(value)
    except ValueError:
        yield FlagProblem(
            FlagProblemKind.BAD_VALUE,
            use.spelling,
            f"{use.spelling} takes {reader.noun}, and {_short(value)} is none.",
            f"Give {use.spelling} {reader.noun}.",
        )
        return
    if flag.choices is not None and str(read) not in flag.choices:
        yield _not_a_choice(use, flag.choices, value)


def _not_a_choice(use: Use, choices: Sequence[str], value: str) -> FlagProblem:
    """Describe a value that is none of those allowed."""
    nearest = _nearest(value, choices)
    return FlagProblem(
        FlagProblemKind.NOT_A_CHOICE,
        use.spelling,
        f"{use.spelling} does not know {_short(value)}; it takes {_listed(choices)}.",
        f"Write {nearest}, if that is meant." if nearest else "Choose one of them.",
        nearest,
    )


_CONFIG: Final = "config"
"""SGLang merges its YAML file into the words before argparse sees them (``server_args_config_parser``, 0.5.23)."""

_VALUE_CHARACTERS: Final = 60


def _short(value: str) -> str:
    """Return a value in quotes, cut to what fits a sentence."""
    return repr(value if len(value) <= _VALUE_CHARACTERS else f"{value[:_VALUE_CHARACTERS]}…")


@dataclass(frozen=True, slots=True)
class _Reader:
    """How the engine reads a word, and what it expects, for a message."""

    read: Callable[[str], object]
    noun: str


_SIZE: Final = re.compile(r"\d+(\.\d+)?[kMGT]|\d+[KMGT]i")
"""What SGLang's ``human_readable_int`` reads beside whole numbers (seen in 0.5.23)."""


def _read_size(word: str) -> str:
    """Return a size such as ``128k`` as it is, or raise ValueError."""
    stripped = word.strip()
    if not _SIZE.fullmatch(stripped):
        int(stripped)
    return stripped


_READERS: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "str": _Reader(str, "text"),
        "int": _Reader(int, "a whole number"),
        "float": _Reader(float, "a number"),
        "json": _Reader(json.loads, "JSON"),
        "human_readable_int": _Reader(_read_size, "a whole number, or one such as 128k or 1Mi"),
    }
)


def _current_spellings(table: FlagTable) -> tuple[str, ...]:
    """Return the spellings worth recommending."""
    return tuple(spelling for spelling, flag in table.spellings.items() if not (flag.deprecated or flag.retired))


def _nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to a word, if any is similar at all."""
    named = {candidate.lstrip("-"): candidate for candidate in candidates}  # the dashes make all flags similar
    close = get_close_matches(word.lstrip("-"), named, n=1)
    return named[close[0]] if close else None


def _listed(words: Sequence[str]) -> str:
    """Return words as the end of a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _count(words: Sequence[str]) -> str:
    """Return how many words there are, in words of a sentence that goes on in the plural."""
    return f"{len(words)} word(s)"
