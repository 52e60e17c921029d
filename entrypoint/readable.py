"""Readable: messages of any length as people can read them."""

import re

LONGEST_WORD = 400
"""Longer than any path or URL that a person has typed."""
_HEAD, _TAIL = 120, 40
_OVERLONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def shortened(text: str) -> str:
    """Return a text in which words that nobody would read to their end are cut in the middle."""
    return _OVERLONG.sub(_cut, text)


def _cut(word: re.Match[str]) -> str:
    whole = word.group()
    return f"{whole[:_HEAD]}…[{len(whole)} characters]…{whole[-_TAIL:]}"
