"""Log files of any make: plain or compressed, whole or cut off, read once from front to end in bounded memory."""

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, cast

from entrypoint.outcome import ExitCode, SuperviseError

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 22
"""A line longer than this is taken in pieces: what it has to say stands at its beginning."""
STANDARD_INPUT = "-"
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, OSError)
"""What the readers of compressed files raise where one is cut off or damaged."""
_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


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
            for block in self._read(raw):
                data = rest + block
                end = data.rfind(b"\n") + 1
                if not end and len(data) < LONGEST_LINE_BYTES:
                    rest = data
                    continue
                rest = data[end:] if end else b""
                yield data[:end] if end else data + b"\n"
            if rest:
                yield rest + b"\n"

    def _read(self, raw: BinaryIO) -> Iterator[bytes]:
        """Yield the text in blocks; of a compressed file that is cut off, all that can be had."""
        stream = _decompressed(raw)
        pieces: list[bytes] = []
        while True:
            try:
                piece = stream.read1(BLOCK_BYTES)
            except _BROKEN as error:
                self.cut = f"{self.name} cannot be read to its end: {error}"
                piece = b""
            pieces.append(piece)
            if not piece or sum(map(len, pieces)) >= BLOCK_BYTES:
                block = b"".join(pieces)
                pieces = []
                self.read_bytes = raw.tell() if raw.seekable() else self.read_bytes + len(block)
                if block:
                    yield block
            if not piece:
                return

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        if self.name == STANDARD_INPUT:
            yield sys.stdin.buffer
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


def _decompressed(raw: BinaryIO) -> BufferedIOBase:
    """Return a stream of the text itself; a compressed file is known by its first bytes, whatever its name."""
    if not raw.seekable():
        return cast("BufferedIOBase", raw)
    head = raw.read(6)
    raw.seek(0)
    opener = next((opener for magic, opener in _OPENERS if head.startswith(magic)), None)
    return cast("BufferedIOBase", raw if opener is None else opener(raw))
