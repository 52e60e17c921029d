"""Log files of any make, read once in bounded memory."""

import bz2
import gzip
import lzma
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.verdict import logfile
from entrypoint.verdict.logfile import LONGEST_LINE_BYTES, LogFile

TEXT = b"".join(b"line %d\n" % number for number in range(20_000))


def read(path: Path) -> bytes:
    return b"".join(LogFile(str(path)).blocks())


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["server-0.log", "server-0.log.gz", "odd"])
def test_a_file_is_known_by_its_first_bytes_whatever_its_name(tmp_path: Path, pack: object, name: str):
    path = tmp_path / name
    path.write_bytes(pack(TEXT))  # type: ignore[operator]
    file = LogFile(str(path))
    assert b"".join(file.blocks()) == TEXT
    assert file.cut is None
    assert file.read_bytes == file.size_bytes == path.stat().st_size


@given(share=st.floats(0, 1), pack=st.sampled_from([gzip.compress, bz2.compress, lzma.compress]))
@settings(max_examples=60, deadline=None)
def test_a_compressed_file_that_is_cut_off_gives_what_it_holds_and_says_so(
    tmp_path_factory: pytest.TempPathFactory, share: float, pack: object
):
    packed: bytes = pack(TEXT)  # type: ignore[operator]
    path = tmp_path_factory.mktemp("cut") / "log.gz"
    path.write_bytes(packed[: 8 + int(share * (len(packed) - 9))])
    file = LogFile(str(path))
    found = b"".join(file.blocks())
    assert TEXT.startswith(found.removesuffix(b"\n"))
    assert file.cut is not None
    assert "cannot be read to its end" in file.cut


def test_a_last_line_without_its_end_is_a_line(tmp_path: Path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo")
    assert read(path) == b"one\ntwo\n"


@pytest.mark.parametrize("text", [b"", b"\n", b"\0\xff\x1b[0m\r\n", b"\0" * 100])
def test_whatever_bytes_come_out_as_they_are(tmp_path: Path, text: bytes):
    path = tmp_path / "log"
    path.write_bytes(text)
    assert read(path).removesuffix(b"\n") == text.removesuffix(b"\n")


def test_blocks_end_where_lines_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logfile, "BLOCK_BYTES", 1000)
    path = tmp_path / "log"
    path.write_bytes(TEXT)
    blocks = list(LogFile(str(path)).blocks())
    assert len(blocks) > 100
    assert all(block.endswith(b"\n") for block in blocks)
    assert b"".join(blocks) == TEXT


def test_of_an_endless_line_only_the_beginning_is_taken(tmp_path: Path):
    path = tmp_path / "log"
    path.write_bytes(b"before it\n" + b"x" * (3 * LONGEST_LINE_BYTES) + b"\nafter it\n")
    file = LogFile(str(path))
    blocks = list(file.blocks())
    assert max(map(len, blocks)) <= LONGEST_LINE_BYTES + 2 * logfile.BLOCK_BYTES
    assert b"".join(blocks).count(b"\n") == 3
    assert b"".join(blocks).endswith(b"x\nafter it\n")
    assert file.cut is not None
    assert "a line without an end" in file.cut


def test_a_bar_that_never_ends_its_line_is_read_whole(tmp_path: Path):
    path = tmp_path / "log"
    text = b"Loading 50%\r" * (2 * LONGEST_LINE_BYTES // 12) + b"done\n"
    path.write_bytes(text)
    file = LogFile(str(path))
    assert b"".join(file.blocks()) == text
    assert file.cut is None


@pytest.mark.parametrize(
    ("magic", "unpacker"),
    [(b"\x28\xb5\x2f\xfd", "zstd -dc"), (b"\x04\x22\x4d\x18", "lz4 -dc"), (b"PK\x03\x04", "unzip -p")],
)
def test_what_cannot_be_unpacked_here_is_said_with_what_can(tmp_path: Path, magic: bytes, unpacker: str):
    path = tmp_path / "my log"
    path.write_bytes(magic + b"rest")
    with pytest.raises(SuperviseError, match="which cannot be read here") as raised:
        list(LogFile(str(path)).blocks())
    assert f"{unpacker} '{path}' | supervise diagnose -" in raised.value.remedy


def test_the_standard_input_is_read_from_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    with path.open("rb") as stream:
        stream.readline()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        assert b"".join(LogFile("-").blocks()) == b"two\n"


def test_the_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch):
    read_end, write_end = os.pipe()
    os.write(write_end, b"one\ntwo\n")
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        assert b"".join(LogFile("-").blocks()) == b"one\ntwo\n"


def test_a_compressed_standard_input_is_unpacked(monkeypatch: pytest.MonkeyPatch):
    read_end, write_end = os.pipe()
    os.write(write_end, gzip.compress(TEXT))  # less than a pipe holds
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        assert b"".join(LogFile("-").blocks()) == TEXT


def test_a_file_that_is_not_there_is_said_with_what_to_give_instead(tmp_path: Path):
    with pytest.raises(SuperviseError, match="No such file or directory") as raised:
        list(LogFile(str(tmp_path / "none")).blocks())
    assert raised.value.code is ExitCode.USAGE
    assert "run directory" in raised.value.remedy
