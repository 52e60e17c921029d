"""Readable: texts of any length and any content as people can read them."""

import re

LONGEST_WORD = 400
"""Longer than any path or URL that a person has typed."""
_HEAD, _TAIL = 120, 40
_OVERLONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""Colours and cursor moves, window titles and links, and the short ones (ECMA-48, 5.3 to 5.6 and 8.3.89)."""
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Controls, marks that turn the direction of a text, and what cannot be encoded; not tabulator and newline."""
_MINUTE_S = 60
_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def shortened(text: str) -> str:
    """Return a text in which words that nobody would read to their end are cut in the middle."""
    return _OVERLONG.sub(_cut, text)


def _cut(word: re.Match[str]) -> str:
    whole = word.group()
    return f"{whole[:_HEAD]}…[{len(whole)} characters]…{whole[-_TAIL:]}"


def plain(text: str) -> str:
    """Return a text without colours; any other character that acts instead of being read becomes ``\ufffd``."""
    without = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", " ").expandtabs(4)
    return _UNPRINTABLE.sub("\ufffd", without)


def abbreviated(text: str, characters: int) -> str:
    """Return a text of at most so many characters, with an ellipsis for what was cut out of its middle."""
    if len(text) <= characters:
        return text
    tail = (characters - 1) // 2
    return f"{text[: characters - 1 - tail]}…{text[len(text) - tail :]}"


def duration(seconds: float | None) -> str:
    """Return a time span in its two largest units; a dash for None."""
    if seconds is None:
        return "\N{EN DASH}"
    if seconds < _MINUTE_S:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    large_s, large, small_s, small = next(row for row in _UNITS if whole >= row[0])
    rest = whole % large_s // small_s
    return f"{whole // large_s} {large} {rest} {small}" if rest else f"{whole // large_s} {large}"
