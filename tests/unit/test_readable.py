"""Messages of any length as people can read them."""

from entrypoint.readable import LONGEST_WORD, shortened


def test_a_word_that_nobody_reads_to_its_end_is_cut_in_the_middle():
    text = shortened(f"The file {'a' * 500}{'b' * 500} is gone.")
    assert text == f"The file {'a' * 120}…[1000 characters]…{'b' * 40} is gone."


def test_words_of_ordinary_length_stay_however_many_they_are():
    text = " ".join(["x" * LONGEST_WORD] * 50)
    assert shortened(text) == text
