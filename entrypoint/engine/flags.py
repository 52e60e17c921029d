"""The flags that an engine takes, and what a command line of them means.

The rules are those of Python's argparse, which reads the engine's command line: a long flag may be cut to any prefix
that only one flag has, ``--flag=value`` is one word, the last use wins, and a word that looks like a negative number
or holds a space is a value. Nothing here knows a flag by name but ``FALLBACK_ALIASES``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

_NEGATIVE_NUMBER: Final = re.compile(r"-(\d+|\d*\.\d+)")
"""What argparse takes for a number, and so for a value, although it begins with a dash."""


class FlagKind(StrEnum):
    """How many words follow a flag."""

    BARE = "bare"
    """None: its presence is its meaning."""
    ONE = "one"
    """Exactly one."""
    OPTIONAL = "optional"
    """One, or none."""
    SEVERAL = "several"
    """At least one."""
    ANY = "any"
    """Any number, none included."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of the engine.

    Attributes:
        spellings: Every way to write it in full, the preferred one first.
        dest: What it sets, whichever way it is written.
        kind: How many words follow it.
        type_name: Name of what the engine converts each word with.
        choices: The words allowed, where they are limited.
        constant: What it stores without words, or instead of them.
        deprecated: The engine accepts it, with a warning.
        retired: The engine knows it only to refuse it.
        replacement: What to write instead, where the engine says so.
        metavar: The engine's placeholder for the value.
        help: First sentence of the engine's own help.
    """

    spellings: tuple[str, ...]
    dest: str
    kind: FlagKind
    type_name: str = "str"
    choices: tuple[str, ...] | None = None
    constant: str | None = None
    deprecated: bool = False
    retired: bool = False
    replacement: str | None = None
    metavar: str | None = None
    help: str = ""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """An abbreviation that several flags begin with; the engine refuses it.

    Attributes:
        candidates: Every spelling that begins with it, in the engine's order.
    """

    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """One flag as it stands on a command line, with the words up to the next one.

    Attributes:
        spelling: The flag as written, without an attached value; "" for words before the first flag.
        found: The flag meant, if the engine has it.
        attached: What follows the equals sign of ``--flag=value``.
        words: The words that follow, whether or not the flag takes them.
    """

    spelling: str
    found: Flag | Ambiguous | None
    attached: str | None = None
    words: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """The values that the flag takes; the engine would call other words unrecognized."""
        if not isinstance(self.found, Flag):
            return ()
        if self.attached is not None:
            return (self.attached,)
        match self.found.kind:
            case FlagKind.BARE:
                return ()
            case FlagKind.ONE | FlagKind.OPTIONAL:
                return self.words[:1]
            case FlagKind.SEVERAL | FlagKind.ANY:
                return self.words

    @property
    def strays(self) -> tuple[str, ...]:
        """The words that belong to no flag."""
        return self.words if self.attached is not None else self.words[len(self.values) :]

    @property
    def lacks_a_value(self) -> bool:
        """Whether the flag needs a value that is not there."""
        return isinstance(self.found, Flag) and self.found.kind in {FlagKind.ONE, FlagKind.SEVERAL} and not self.values


class _Document(BaseModel):
    """The stored form of a table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1]
    version: str
    python_version: str = ""
    flags: tuple[Flag, ...]


@dataclass(frozen=True)
class FlagTable:
    """All flags of one engine.

    Attributes:
        version: The engine's version.
        flags: Its flags, in the order of its help.
        python_version: The Python that it runs on.
    """

    version: str
    flags: tuple[Flag, ...]
    python_version: str = ""

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a table.

        Raises:
            ValueError: If the text is no table of this schema; says why in one line.
        """
        try:
            document = _Document.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error
        return cls(document.version, document.flags, document.python_version)

    def to_json(self) -> str:
        """Write the table in the form that ``from_json`` reads, leaving out what is default."""
        document = _Document(
            schema_version=1, version=self.version, python_version=self.python_version, flags=self.flags
        )
        return document.model_dump_json(exclude_defaults=True)

    @cached_property
    def spellings(self) -> Mapping[str, Flag]:
        """Every full spelling with its flag, in the engine's order."""
        return MappingProxyType({spelling: flag for flag in self.flags for spelling in flag.spellings})

    def find(self, spelling: str) -> Flag | Ambiguous | None:
        """Return the flag that a word names, in full, abbreviated, or with ``=value`` attached."""
        name = spelling.partition("=")[0]
        if name in self.spellings:
            return self.spellings[name]
        if not re.match(r"--.", name):
            return None
        candidates = tuple(full for full in self.spellings if full.startswith(name))
        if len(candidates) > 1:
            return Ambiguous(candidates)
        return self.spellings[candidates[0]] if candidates else None

    def uses(self, argv: Sequence[str]) -> tuple[Use, ...]:
        """Return the flags of a command line, without the program, each with the words that follow it."""
        return tuple(
            Use(name, self.find(name) if name else None, attached, words)
            for name, attached, words in _grouped(argv, self._is_flag)
        )

    def destinations(self, argv: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return what a command line sets, by destination: never how it was spelled.

        A bare flag stores ``("true",)``, its negation ``("false",)``; values are the words as written. Flags that
        the engine would refuse are left out, for ``check`` to report.
        """
        found: dict[str, tuple[str, ...]] = {}
        for use in self.uses(argv):
            stored = _stored(use)
            if stored is not None and isinstance(use.found, Flag):
                found[use.found.dest] = stored
        return found

    def _is_flag(self, word: str) -> bool:
        """Return whether argparse takes a word for a flag rather than for a value."""
        return self.find(word) is not None or _looks_like_a_flag(word)


def destinations_without_table(argv: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return what a command line sets, as far as ``FALLBACK_ALIASES`` knows its flags.

    For a machine where no engine was ever asked for its flags: abbreviations and all other flags are unknown.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, attached, words in _grouped(argv, _looks_like_a_flag):
        if name in FALLBACK_ALIASES:
            found[FALLBACK_ALIASES[name]] = (attached,) if attached is not None else words or ("true",)
    return found


def _looks_like_a_flag(word: str) -> bool:
    """Return whether a word that is no known flag is still taken for one."""
    return len(word) > 1 and word.startswith("-") and not _NEGATIVE_NUMBER.fullmatch(word) and " " not in word


def _grouped(argv: Sequence[str], is_flag: Callable[[str], bool]) -> Iterator[tuple[str, str | None, tuple[str, ...]]]:
    """Yield each flag's name, its attached value, and the words up to the next flag; first those before any."""
    end = argv.index("--") if "--" in argv else len(argv)
    starts = [place for place, word in enumerate(argv[:end]) if is_flag(word)]
    leading = _without_separator(argv[: starts[0] if starts else len(argv)])
    if leading:
        yield "", None, leading
    for start, following in pairwise([*starts, len(argv)]):
        name, equals, attached = argv[start].partition("=")
        yield name, attached if equals else None, _without_separator(argv[start + 1 : following])


def _without_separator(words: Sequence[str]) -> tuple[str, ...]:
    """Return words without the ``--`` that declares all later ones to be values."""
    if "--" not in words:
        return tuple(words)
    place = words.index("--")
    return (*words[:place], *words[place + 1 :])


def _stored(use: Use) -> tuple[str, ...] | None:
    """Return what the use of a flag stores, or None where it stores nothing."""
    flag = use.found
    if not isinstance(flag, Flag) or flag.retired or use.lacks_a_value:
        return None
    if flag.constant is not None and not (flag.kind is FlagKind.OPTIONAL and use.values):
        return (flag.constant,)
    return None if flag.kind is FlagKind.BARE else use.values


_FALLBACK_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "admin_api_key": ("--admin-api-key",),
        "api_key": ("--api-key",),
        "attention_backend": ("--attention-backend",),
        "attn_dp_size": ("--attn-dp-size",),
        "chat_template": ("--chat-template",),
        "config": ("--config",),
        "context_length": ("--context-length",),
        "decode_attention_backend": ("--decode-attention-backend",),
        "device": ("--device",),
        "disable_cuda_graph": ("--disable-cuda-graph",),
        "disable_radix_cache": ("--disable-radix-cache",),
        "dist_init_addr": ("--dist-init-addr", "--nccl-init-addr"),
        "dp_size": ("--dp-size", "--data-parallel-size", "--dp"),
        "dtype": ("--dtype",),
        "enable_hierarchical_cache": ("--enable-hierarchical-cache", "--enable-hicache"),
        "ep_size": ("--ep-size", "--expert-parallel-size", "--ep"),
        "host": ("--host",),
        "kv_cache_dtype": ("--kv-cache-dtype",),
        "load_format": ("--load-format",),
        "lora_paths": ("--lora-paths",),
        "mamba_full_memory_ratio": ("--mamba-full-memory-ratio",),
        "max_running_requests": ("--max-running-requests",),
        "max_total_tokens": ("--max-total-tokens",),
        "mem_fraction_static": ("--mem-fraction-static",),
        "model_path": ("--model-path", "--model"),
        "nnodes": ("--nnodes",),
        "node_rank": ("--node-rank",),
        "page_size": ("--page-size",),
        "port": ("--port",),
        "pp_size": ("--pp-size", "--pipeline-parallel-size"),
        "pre_warm_nccl": ("--pre-warm-nccl",),
        "prefill_attention_backend": ("--prefill-attention-backend",),
        "quantization": ("--quantization",),
        "reasoning_parser": ("--reasoning-parser",),
        "revision": ("--revision",),
        "served_model_name": ("--served-model-name",),
        "speculative_algorithm": ("--speculative-algorithm",),
        "speculative_draft_model_path": ("--speculative-draft-model-path", "--speculative-draft-model"),
        "tokenizer_path": ("--tokenizer-path",),
        "tool_call_parser": ("--tool-call-parser",),
        "tp_size": ("--tp-size", "--tensor-parallel-size", "--tp"),
        "trust_remote_code": ("--trust-remote-code",),
        "watchdog_timeout": ("--watchdog-timeout",),
    }
)

FALLBACK_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {spelling: dest for dest, spellings in _FALLBACK_SPELLINGS.items() for spelling in spellings}
)
"""The flags that rules look at, with what they set: stable over SGLang 0.4 to 0.5.23."""
