"""What a page shows of a log."""

import pytest

from entrypoint.tell.excerpt import LONGEST_LINE, LogLine, excerpt

TAIL = tuple(f"line {number}" for number in range(41, 101))
"""The last 60 lines of a log of 100."""


def numbers(lines: tuple[LogLine, ...]) -> list[int | None]:
    """Return the numbers of lines."""
    return [line.number for line in lines]


def test_lines_around_the_one_that_tells_and_the_last_ones_are_shown_with_what_is_left_out_between():
    shown = excerpt(TAIL, lines=100, root=60)
    assert numbers(shown) == [*range(52, 69), *range(81, 101)]
    assert [(line.number, line.text) for line in shown if line.is_root] == [(60, "line 60")]
    assert [(line.number, line.skipped) for line in shown if line.skipped] == [(81, 12)]


def test_one_that_tells_among_the_last_ones_leaves_no_gap():
    shown = excerpt(TAIL, lines=100, root=85)
    assert numbers(shown) == list(range(77, 101))
    assert not any(line.skipped for line in shown)


@pytest.mark.parametrize("root", [41, 100])
def test_the_first_and_the_last_line_at_hand_can_tell(root: int):
    assert [line.number for line in excerpt(TAIL, lines=100, root=root) if line.is_root] == [root]


@pytest.mark.parametrize("root", [None, 1, 40, 101])
def test_without_a_line_that_tells_at_hand_none_is_marked(root: int | None):
    shown = excerpt(TAIL, lines=100, root=root)
    assert numbers(shown) == list(range(81, 101))
    assert not any(line.is_root for line in shown)


def test_without_the_length_of_the_log_no_line_has_a_number():
    assert set(numbers(excerpt(TAIL, lines=None, root=90))) == {None}


def test_an_empty_log_is_empty():
    assert excerpt((), lines=0, root=None) == ()


def test_a_line_is_one_line_of_bounded_length():
    (line,) = excerpt(("a\nb" + "x" * 10_000,), lines=1, root=1)
    assert line.text.startswith("a bxx")
    assert len(line.text) == LONGEST_LINE
