"""Messages of any length as people can read them."""

import pytest

from entrypoint.readable import LONGEST_WORD, abbreviated, duration, plain, shortened


def test_a_word_that_nobody_reads_to_its_end_is_cut_in_the_middle():
    text = shortened(f"The file {'a' * 500}{'b' * 500} is gone.")
    assert text == f"The file {'a' * 120}…[1000 characters]…{'b' * 40} is gone."


def test_words_of_ordinary_length_stay_however_many_they_are():
    text = " ".join(["x" * LONGEST_WORD] * 50)
    assert shortened(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;5;9m\x1b[Kx\x1b(B", "x"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\tb", "a   b"),
        ("a\r\nb\nc", "a\nb\nc"),
        ("10 %\r20 %", "10 % 20 %"),
        ("bell \x07 nul \x00 \x9b", "bell \ufffd nul \ufffd \ufffd"),
        ("turned \u202e around", "turned \ufffd around"),
        ("broken \udcff", "broken \ufffd"),
        ("Zürich ▁▂▃ 東京 🚀", "Zürich ▁▂▃ 東京 🚀"),
    ],
)
def test_characters_that_act_are_taken_out_or_made_visible(text: str, shown: str):
    assert plain(text) == shown


def test_what_is_too_long_is_cut_in_its_middle():
    assert abbreviated("0123456789", 10) == "0123456789"
    assert abbreviated("0123456789a", 10) == "01234…789a"
    assert abbreviated("0123456789", 9) == "0123…6789"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 s"),
        (0.04, "0 s"),
        (12.34, "12.3 s"),
        (59.9, "59.9 s"),
        (60, "1 min"),
        (61.4, "1 min 1 s"),
        (3599.6, "1 h"),
        (3660, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_time_span_is_told_in_its_two_largest_units(seconds: float | None, words: str):
    assert duration(seconds) == words
