"""An index of literals: which lines of a block hold any of them, in one pass whatever their number."""

from collections.abc import Iterator, Sequence

from ahocorasick_rs import BytesAhoCorasick, Implementation

BLOCK_BYTES = 1 << 20
"""How much is searched at once: what one search finds is held in memory."""
LINE_BYTES = 1 << 14
"""How much of a line is searched that is larger than a block."""


class LiteralIndex:
    """Finds lines by the literals in them.

    Args:
        literals: What to look for; none of them is empty or holds the end of a line.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        # Of the automaton's forms this is the fastest by far, and some hundred literals make a small one.
        self._automaton = BytesAhoCorasick(literals, implementation=Implementation.DFA) if literals else None

    def lines(self, data: bytes) -> Iterator[tuple[int, int, frozenset[int]]]:
        r"""Yield begin, end and the numbers of the literals in it, of every line that holds one.

        Args:
            data: Complete lines, each ended by ``\n`` or ``\r``; the last one may have no end.
        """
        if self._automaton is None:
            return
        data = data.replace(b"\r", b"\n")
        for begin, end in _blocks(data):
            block = data if end - begin == len(data) else data[begin:end]
            for line_begin, line_end, found in _lines(block, self._automaton):
                yield begin + line_begin, begin + line_end, found


def _blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Cut at line ends; of a line that is larger than a block only the beginning is searched."""
    begin = 0
    while len(data) - begin > BLOCK_BYTES:
        end = data.rfind(b"\n", begin, begin + BLOCK_BYTES) + 1
        if end:
            yield begin, end
            begin = end
        else:
            yield begin, begin + LINE_BYTES
            begin = data.find(b"\n", begin + BLOCK_BYTES) + 1
            if not begin:
                return
    if begin < len(data):
        yield begin, len(data)


def _lines(block: bytes, automaton: BytesAhoCorasick) -> Iterator[tuple[int, int, frozenset[int]]]:
    begin = end = -1
    found: set[int] = set()
    for literal, first, _ in automaton.find_matches_as_indexes(block, overlapping=True):
        if first >= end:
            if found:
                yield begin, end, frozenset(found)
                found = set()
            begin = block.rfind(b"\n", 0, first) + 1
            end = block.find(b"\n", first)
            end = len(block) if end < 0 else end
        found.add(literal)
    if found:
        yield begin, end, frozenset(found)
