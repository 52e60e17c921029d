"""Signs of health: lines that an engine prints only while it goes on working."""

_LITERALS = (
    b"Decode batch",
    b"Prefill batch",
    b'completions HTTP/1.1" 200',
    b'/generate HTTP/1.1" 200',
    b"The server is fired up and ready to roll!",
)
"""Batches, and requests for text that were answered: readings of metrics and of health are answered by an engine,
too, that is about to die."""


def count(lines: bytes, begin: int, end: int) -> int:
    """Return how many signs there are in a part of a text."""
    return sum(lines.count(literal, begin, end) for literal in _LITERALS)
