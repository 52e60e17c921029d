"""Redaction: secrets are replaced by ``***``, by their value and by the shape of what stands around them.

Two nets lie one behind the other. The first knows the run's secrets and replaces them wherever they occur, in
the spellings that logs give them. The second knows how secrets are written down (``api_key='…'``, ``HF_TOKEN=…``,
``Bearer …``) and masks what stands there although nobody told us the value: SGLang prints its arguments with
the keys in them.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

MASK = b"***"
SHORTEST_VALUE = 4
"""Characters below which a secret is masked by its shape alone: replacing every ``1`` would destroy the text."""

# A value in quotes, which may be escaped themselves (JSON inside of JSON), or a bare word. Nothing, None and null
# are no secrets, and that they are not set is worth reading.
_OPENING = rb"""(?:[bBuU]?(?P<slash>\\*)(?P<quote>["']))?"""
_VALUE = (
    rb"""(?(quote)(?:(?!(?P=slash)(?P=quote))(?:\\.|[^\r\n]))+"""
    rb"""|(?!(?:None|null)\b|[bBuU]?\\*["'])[^\s,;&)\]}]+)"""
)
# "--api-key VALUE" on a command line, "'--api-key', 'VALUE'" in a printed list; but "argument --api-key: expected
# one argument" is what argparse has to say, not a value.
_AFTER_FLAG = rb"""(?:(?<=--api-key)|(?<=--admin-api-key))(?:["'],?[ \t]*|[ \t]+)"""
_AFTER_NAME = rb"""\\*["']?[ \t]*(?:=|(?<!--api-key)(?<!--admin-api-key):)[ \t]*"""


class _Shape(NamedTuple):
    """How secrets of one kind are written.

    Attributes:
        literal: Occurs in every text of this shape; looked for first, because that is fast.
        pattern: Matches one secret, with what stays readable in the group ``keep``.
    """

    literal: bytes
    pattern: re.Pattern[bytes]


def _assignment(literal: bytes, name: bytes) -> _Shape:
    return _Shape(
        literal,
        re.compile(
            rb"(?P<keep>" + name + rb"(?:" + _AFTER_FLAG + rb"|" + _AFTER_NAME + rb")" + _OPENING + rb")" + _VALUE
        ),
    )


_SHAPES = (
    _assignment(b"api_key", b"api_key"),
    _assignment(b"api-key", b"api-key"),
    _assignment(b"API_KEY", b"API_KEY"),
    _assignment(b"hf_token", b"hf_token"),
    _assignment(b"_TOKEN", b"_TOKEN"),
    _assignment(b"_SECRET", b"_SECRET(?:_ACCESS_KEY|_KEY)?"),
    _assignment(b"assword", b"assword"),
    _assignment(b"PASSWORD", b"PASSWORD"),
    _Shape(b"earer ", re.compile(rb"""(?P<keep>earer[ ]+)[^\s"'\\,;]+""")),
    # What follows a mask belongs to a token that was masked before its end was seen.
    _Shape(b"hf_", re.compile(rb"(?P<keep>hf_)(?:\*{3}[A-Za-z0-9]+|[A-Za-z0-9]{16,})")),
)
_LONGEST_SHAPE_BYTES = 512
"""More than a name, its separators and a mask take together."""
_SECRET_NAME = re.compile(
    r"(?:api[_-]key|API_KEY|hf_token|^token|_TOKEN|SECRET(?:_ACCESS_KEY|_KEY)?|[Pp]assword|PASSWORD)$"
)


class Masker:
    """Replaces secrets by ``***``.

    Args:
        secrets: Values to hide. Empty ones are ignored; ones shorter than ``SHORTEST_VALUE`` characters are left to
            the shapes. Each is hidden in its JSON, ``repr`` and URL spelling as well, and one of several lines is
            hidden line by line.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(secrets)
        spellings = {spelling for secret in self._secrets for spelling in _spellings(secret)}
        self._spellings = tuple(sorted(spellings, key=lambda spelling: (-len(spelling), spelling)))

    def also(self, secrets: Iterable[str]) -> "Masker":
        """Return a masker that knows more secrets."""
        return Masker([*self._secrets, *secrets])

    @property
    def overlap_bytes(self) -> int:
        """Bytes that have to be seen again when a text is masked in pieces."""
        return max([_LONGEST_SHAPE_BYTES, *(2 * len(spelling) for spelling in self._spellings)])

    def mask_bytes(self, data: bytes) -> bytes:
        """Return the data without secrets."""
        for spelling in self._spellings:
            data = data.replace(spelling, MASK)
        has_underscore = b"_" in data  # one byte is found many times faster than a longer literal
        for shape in _SHAPES:
            if (has_underscore or b"_" not in shape.literal) and shape.literal in data:
                data = shape.pattern.sub(rb"\g<keep>***", data)
        return data

    def mask_text(self, text: str) -> str:
        """Return the text without secrets."""
        return self.mask_bytes(_encode(text)).decode("utf-8", "surrogatepass")

    def mask_value(self, value: Any) -> Any:
        """Return a JSON-like value without secrets: texts are masked, and whatever has a secret's name."""
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, Mapping):
            return {self.mask_value(name): self._mask_item(name, item) for name, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.mask_value(item) for item in value]
        return value

    def _mask_item(self, name: Any, item: Any) -> Any:
        if isinstance(name, str) and isinstance(item, str) and item and _SECRET_NAME.search(name):
            return MASK.decode()
        return self.mask_value(item)

    def without_begun_secret(self, data: bytes) -> bytes:
        """Return the data without an end that may be the beginning of a secret."""
        begun = (
            length
            for spelling in self._spellings
            for length in range(1, len(spelling))
            if data.endswith(spelling[:length])
        )
        return data[: len(data) - max(begun, default=0)]


class StreamMasker:
    r"""Masks a stream that arrives in pieces: only complete lines are passed on.

    A line ends with ``\n`` or ``\r`` (a redrawn progress bar). A line that grows beyond the limit is passed on in
    parts, each a line by itself, with a mark at the beginning of all but the first; what lies on the border is
    looked at again, so that no secret is cut in two.

    Args:
        masker: Knows the secrets.
        line_limit_bytes: Longest part of a line to be kept in memory.
    """

    CONTINUED = b"[supervise] (the line goes on) "

    def __init__(self, masker: Masker, *, line_limit_bytes: int = 1 << 20) -> None:
        self._masker = masker
        self._line_limit_bytes = max(line_limit_bytes, 4 * masker.overlap_bytes)
        self._pending = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Take in data; return the lines that it completes, masked."""
        searched = max(len(self._pending) - 1, 0)
        self._pending += data
        # A carriage return at the very end may be the first half of a line's end.
        carriage_return = self._pending.rfind(b"\r", searched, max(len(self._pending) - 1, searched))
        end = max(self._pending.rfind(b"\n", searched), carriage_return) + 1
        lines = self._masker.mask_bytes(bytes(self._pending[:end])) if end else b""
        del self._pending[:end]
        if len(self._pending) > self._line_limit_bytes:
            lines += self._part()
        return lines

    def _part(self) -> bytes:
        masked = self._masker.mask_bytes(bytes(self._pending))
        cut = len(masked) - self._masker.overlap_bytes
        self._pending = bytearray(self.CONTINUED + masked[max(cut, 0) :])
        return masked[: max(cut, 0)] + b"\n"

    @property
    def has_pending(self) -> bool:
        """Whether there is a line whose end has not been seen."""
        return bool(self._pending)

    def peek(self) -> bytes:
        """Return the line whose end has not been seen, masked, without taking it."""
        return self._masker.mask_bytes(self._masker.without_begun_secret(bytes(self._pending)))

    def flush(self) -> bytes:
        """Return the last line of a stream that has ended, masked and with an end."""
        rest, self._pending = bytes(self._pending), bytearray()
        if not rest:
            return b""
        masked = self._masker.mask_bytes(rest)
        return masked if rest.endswith(b"\r") else masked + b"\n"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _spellings(secret: str) -> set[bytes]:
    parts = (part.strip() for part in re.split(r"[\r\n]+", secret))
    return {
        spelling
        for part in parts
        if len(part) >= SHORTEST_VALUE
        for spelling in (
            _encode(part),
            json.dumps(part)[1:-1].encode(),
            _encode(json.dumps(part, ensure_ascii=False)[1:-1]),
            _encode(repr(part)[1:-1]),
            quote(_encode(part)).encode(),
            quote(_encode(part), safe="").encode(),
            quote_plus(_encode(part)).encode(),
        )
    }
