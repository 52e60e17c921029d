"""Curves and bars in one line of text."""

import pytest

from entrypoint.tell.sparkline import bar, sparkline


def test_a_curve_goes_from_the_lowest_level_to_the_highest():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7, 8], high=8) == "▁▂▃▄▅▆▇██"


def test_of_many_values_the_lowest_of_each_group_is_shown():
    values = [8.0] * 300
    values[150] = 0.0
    assert sparkline(values, high=8, width=60) == "█" * 30 + "▁" + "█" * 29


@pytest.mark.parametrize("count", [1, 2, 59, 60, 61, 300, 1001])
def test_a_curve_is_as_long_as_there_are_values_up_to_its_width(count: int):
    assert len(sparkline([1.0] * count, high=2, width=60)) == min(count, 60)


def test_values_beyond_the_scale_are_shown_at_its_borders():
    assert sparkline([-5.0, 99.0], high=8) == "▁█"


def test_without_values_or_without_a_scale_nothing_is_divided():
    assert sparkline([], high=8) == ""
    assert sparkline([3.0], high=0) == "▁"


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, ""), (0.5, "██"), (0.53125, "██▏"), (1.0, "████"), (7.0, "████"), (-1.0, ""), (1e-9, "▏")]
)
def test_a_bar_is_as_long_as_its_share_and_what_is_not_nothing_is_seen(share: float, text: str):
    assert bar(share, width=4) == text
