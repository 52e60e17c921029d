"""Records as they may be shown."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from entrypoint.cause import Cause
from entrypoint.settings.redaction import Masker
from entrypoint.tell.presentable import LONGEST_TEXT, presentable, presentable_text

SECRET = "s3cret-key"
MASKER = Masker([SECRET])


@dataclass(frozen=True, slots=True)
class Box:
    """Holds anything."""

    value: Any


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (SECRET, "***"),
        ((SECRET, [SECRET]), ("***", ("***",))),
        (Path("/a") / SECRET, Path("/a/***")),
        (Box(SECRET), Box("***")),
        ({SECRET: [SECRET]}, {"***": ["***"]}),
        ({"api_key": "not known to be one"}, {"api_key": "***"}),
        (None, None),
        (3.5, 3.5),
    ],
)
def test_texts_are_masked_at_any_depth_and_all_else_stays(value: object, shown: object):
    assert presentable(Box(value), MASKER) == Box(shown)


def test_a_member_of_an_enumeration_stays_one():
    assert presentable(Box(Cause.MEMORY), Masker(["memory"])).value is Cause.MEMORY


@pytest.mark.parametrize(
    "text", [f"a{SECRET[:4]}\x1b[31m{SECRET[4:]}", f"{SECRET[:4]}\x1b]8;;x\x07{SECRET[4:]}", f"\x1b[1m{SECRET}\x1b[0m"]
)
def test_a_secret_with_colours_inside_is_masked(text: str):
    assert SECRET not in presentable_text(text, MASKER)
    assert "***" in presentable_text(text, MASKER)


def test_a_secret_with_characters_that_are_replaced_is_masked():
    assert presentable_text("x my\tkey\x07 y", Masker(["my\tkey\x07"])) == "x *** y"


@pytest.mark.parametrize("shift", range(len(SECRET) + 1))
def test_a_long_text_is_cut_and_no_half_of_a_secret_stays_at_the_cut(shift: int):
    text = "x" * (LONGEST_TEXT - shift) + SECRET + "y" * 100
    shown = presentable_text(text, MASKER)
    assert shown.endswith(f"…[{len(text)} characters]")
    assert len(shown) < LONGEST_TEXT + 40
    assert shown.count("x") == LONGEST_TEXT - shift
    assert "s3" not in shown


def test_a_text_of_ordinary_length_is_whole():
    assert presentable_text("x" * LONGEST_TEXT, MASKER) == "x" * LONGEST_TEXT
