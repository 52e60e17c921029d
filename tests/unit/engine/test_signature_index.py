"""The indexes: which lines hold a literal, and which of them bear a signature."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.cause import Cause
from entrypoint.engine import literal_index
from entrypoint.engine.literal_index import LiteralIndex
from entrypoint.engine.signature import Role, Signature
from entrypoint.engine.signature_index import LINE_CHARACTERS, Match, SignatureIndex

LITERALS = (b"abc", b"bcd", b"xyz")


def row(name: str, pattern: str, *literals: str) -> Signature:
    return Signature(name, re.compile(pattern), literals, Role.ROOT, Cause.ENGINE, "b", "r", "s", "v")


INDEX = SignatureIndex(
    [
        row("a.disk", r"^disk (?P<name>\w+)(?: at (?P<where>\S+))? is full", "is full"),
        row("a.full", r"^disk \w+ is full$", "disk ", "disc "),
        row("a.fan", r"^fan (?:stuck|dead)", "fan stuck", "fan dead"),
    ]
)


def matches(text: str) -> list[Match]:
    return list(INDEX.matches(text.encode()))


def lines_with(data: bytes) -> list[tuple[bytes, frozenset[int]]]:
    return [(data[begin:end], found) for begin, end, found in LiteralIndex(LITERALS).lines(data)]


def test_a_line_is_told_with_all_its_literals_even_if_they_overlap():
    assert lines_with(b"no\n-abcd-\r\nxyz\rno\nabc") == [
        (b"-abcd-", frozenset({0, 1})),
        (b"xyz", frozenset({2})),
        (b"abc", frozenset({0})),
    ]


def test_an_index_of_nothing_finds_nothing():
    assert list(LiteralIndex(()).lines(b"abc\n")) == []


@given(st.lists(st.sampled_from([b"abc", b"bcd", b"x", b"xyz", b"\n", b"\r"])).map(b"".join), st.integers(1, 12))
def test_lines_are_the_same_whatever_is_searched_at_once(data: bytes, block_bytes: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(literal_index, "BLOCK_BYTES", block_bytes)
        found = {line for line, _ in lines_with(data)}

    expected = {line for line in re.split(rb"[\r\n]", data) if any(literal in line for literal in LITERALS)}
    assert {line for line in expected if len(line) < block_bytes} <= found
    assert all(any(full.startswith(line) for full in expected) for line in found)


def test_of_a_line_larger_than_a_block_the_beginning_is_searched():
    rest = b"-" * (2 * literal_index.BLOCK_BYTES)

    assert [len(line) for line, _ in lines_with(b"abc" + rest + b"\nabc\n")] == [literal_index.LINE_BYTES, 3]
    assert [line for line, _ in lines_with(rest + b"abc\nxyz\n")] == [b"xyz"]


def test_a_signature_is_told_with_its_fields_and_its_rank():
    (match,) = matches("[2026-10-20 10:00:12.345 PP1 TP3] disk sda at /x is full\n")

    assert match.signature.id == "a.disk"
    assert match.fields == {"name": "sda", "where": "/x"}
    assert match.statement.rank_tags == "PP1 TP3"
    assert match.statement.time == "2026-10-20 10:00:12.345"


def test_fields_that_took_no_part_are_left_out():
    assert matches("disk sda is full.\n")[0].fields == {"name": "sda"}


def test_a_line_may_bear_several_signatures():
    assert [match.signature.id for match in matches("disk sda is full\n")] == ["a.disk", "a.full"]


def test_any_literal_of_a_signature_will_do():
    assert [match.statement.text for match in matches("fan dead\nfan\nfan stuck\n")] == ["fan dead", "fan stuck"]


def test_a_literal_without_the_pattern_is_not_enough():
    assert matches("my disk sda is full\nfull of fan stuck\n") == []


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("0: ", ""),
        (" 12: [2026-10-20 10:00:12 TP3] ", "TP3"),
        ("[rank3]: ", "rank3"),
        ("[rank3]:[E1020 10:31:00.123 ProcessGroupNCCL.cpp:629] ", "rank3"),
        (" 1: [rank3]: ", "rank3"),
        ("\x1b[33m[2026-10-20 10:00:12]\x1b[0m ", ""),
        ("Loading: 100% Completed | 1/1 [00:00<00:00, 9.2it/s][2026-10-20 10:00:12 TP1] ", "TP1"),
        ("Loading: 10%\r", ""),
    ],
)
def test_what_stands_in_front_of_a_message_does_not_matter(prefix: str, rank: str):
    (match,) = matches(f"{prefix}fan stuck\n")

    assert match.statement.rank_tags == rank


def test_a_signature_behind_the_first_thousands_of_characters_is_not_looked_for():
    index = SignatureIndex([row("a.b", "fault", "fault")])

    assert list(index.matches(b"-" * (LINE_CHARACTERS - 5) + b"fault\n"))
    assert not list(index.matches(b"-" * LINE_CHARACTERS + b"fault\n"))


def test_ordinary_wordings_are_marked():
    suspects = list(INDEX.suspects(b"fan stuck\nLoad weight begin. avail mem=1.00 GB\n"))

    assert [(suspect.signatures, suspect.may_be_fact) for suspect in suspects] == [((2,), False), ((), True)]


@given(st.binary(max_size=200))
def test_any_bytes_can_be_searched(data: bytes):
    list(INDEX.matches(data + b"fan stuck" + data))
