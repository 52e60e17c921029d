"""Log files of any make: plain or compressed, whole or cut off, read once from front to end in bounded memory."""

import bz2
import gzip
import lzma
import shlex
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import cast

from entrypoint.outcome import ExitCode, SuperviseError

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 22
"""Of a line longer than this only the beginning is taken: what it has to say stands there."""
STANDARD_INPUT = "-"
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, OSError)
"""What the readers of compressed files raise where one is cut off or damaged."""
_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_FOREIGN = (
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
)
"""What cannot be unpacked here: its first bytes, its name, and what does."""
_LONGEST_MAGIC = 6


class LogFile:
    """One log file.

    Args:
        name: Its path, or ``-`` for the standard input.

    Attributes:
        name: As given.
        cut: Why the rest of it could not be read; None where it was read to its end.
        read_bytes: How much of the file itself has been read.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.cut: str | None = None
        self.read_bytes = 0

    @property
    def size_bytes(self) -> int | None:
        """How large the file is, compressed as it may be; None where that is not known."""
        if self.name == STANDARD_INPUT:
            return None
        try:
            return Path(self.name).stat().st_size or None
        except OSError:
            return None

    def blocks(self) -> Iterator[bytes]:
        r"""Yield blocks of complete lines, each ended by ``\n``, the last one as well.

        Raises:
            SuperviseError: The file cannot be read at all.
        """
        with self._opened() as raw:
            rest = b""
            too_long = False
            for block in self._read(raw):
                data = rest + block
                if too_long:
                    begin = data.find(b"\n") + 1
                    too_long = not begin
                    data = data[begin:] if begin else b""
                end = _end_of_lines(data)
                if end:
                    rest = data[end:]
                    yield data[:end]
                elif len(data) < LONGEST_LINE_BYTES:
                    rest = data
                else:
                    rest, too_long = b"", True
                    self.cut = f"{self.name} has a line without an end, of which only the beginning was read"
                    yield data + b"\n"
            if rest:
                yield rest + b"\n"

    def _read(self, raw: BufferedReader) -> Iterator[bytes]:
        """Yield the text in blocks; of a compressed file that is cut off, all that can be had."""
        stream = self._decompressed(raw)
        pieces: list[bytes] = []
        size_bytes = 0
        while True:
            try:
                piece = stream.read1(BLOCK_BYTES)
            except _BROKEN as error:
                self.cut = f"{self.name} cannot be read to its end: {error}"
                piece = b""
            pieces.append(piece)
            size_bytes += len(piece)
            if not piece or size_bytes >= BLOCK_BYTES:
                block = b"".join(pieces)
                pieces, size_bytes = [], 0
                self.read_bytes = raw.tell() if raw.seekable() else self.read_bytes + len(block)
                if block:
                    yield block
            if not piece:
                return

    @contextmanager
    def _opened(self) -> Iterator[BufferedReader]:
        if self.name == STANDARD_INPUT:
            yield cast("BufferedReader", sys.stdin.buffer)
            return
        try:
            raw = Path(self.name).open("rb")  # noqa: SIM115  # closed below; only its opening may be refused
        except OSError as error:
            raise SuperviseError(
                f"{self.name} cannot be read: {error.strerror}.",
                remedy="Name a log of SGLang, a run directory, or - for the standard input.",
                code=ExitCode.NOT_PERMITTED if isinstance(error, PermissionError) else ExitCode.USAGE,
            ) from error
        with raw:
            yield raw

    def _decompressed(self, raw: BufferedReader) -> BufferedIOBase:
        """Return a stream of the text itself; a compressed file is known by its first bytes, whatever its name."""
        try:
            head = raw.peek(_LONGEST_MAGIC)
        except OSError:  # whoever reads it next says so
            return raw
        for magic, name, unpacker in _FOREIGN:
            if head.startswith(magic):
                raise SuperviseError(
                    f"{self.name} is compressed with {name}, which cannot be read here.",
                    remedy=f"Unpack it on the way: {unpacker} {shlex.quote(self.name)} | supervise diagnose -",
                    code=ExitCode.USAGE,
                )
        opener = next((opener for magic, opener in _OPENERS if head.startswith(magic)), None)
        return raw if opener is None else cast("BufferedIOBase", opener(raw))


def _end_of_lines(data: bytes) -> int:
    """Return where the last complete line ends; a bar that never ends its line is complete each time it is drawn."""
    end = data.rfind(b"\n") + 1
    return end if end or len(data) < LONGEST_LINE_BYTES else data.rfind(b"\r") + 1


def is_packed(path: Path) -> bool:
    """Return whether a file is compressed, by its first bytes."""
    with path.open("rb") as file:
        head = file.read(_LONGEST_MAGIC)
    return any(head.startswith(magic) for magic, _ in _OPENERS)
