"""The last lines of a log, as a terminal would show them."""

from collections import deque

KEPT_LINES = 60
LINE_BYTES = 4096
"""How much of a line is kept."""


class LastLines:
    """Keeps the last lines of a text that comes in pieces.

    A line that is ended by a carriage return is overwritten by the next one, as a progress bar is on a terminal.
    """

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._drawn = b""
        """What stands in the line that has not been ended yet."""

    def __len__(self) -> int:
        return len(self._lines) + self.is_drawn

    @property
    def is_drawn(self) -> bool:
        """Whether something stands in a line that a newline has not ended yet."""
        return bool(self._drawn)

    def feed(self, lines: bytes) -> None:
        r"""Take the next lines, each ended by ``\n`` or ``\r``."""
        begin = _begin_of_last(lines, KEPT_LINES)
        if begin:
            self._drawn = b""  # more lines follow than are kept, so that this one is not
        *ended, drawn = lines[begin:].split(b"\n")
        for line in ended:
            self._lines.append(_shown(line) or self._drawn)
            self._drawn = b""
        self._drawn = _shown(drawn) or self._drawn

    def lines(self) -> tuple[bytes, ...]:
        """Return them, oldest first, with colours and without line ends."""
        drawn = (self._drawn,) if self._drawn else ()
        return (*self._lines, *drawn)[-KEPT_LINES:]


def _begin_of_last(lines: bytes, count: int) -> int:
    """Return where the last lines begin; a few more do no harm."""
    begin = len(lines)
    for _ in range(count + 1):
        begin = lines.rfind(b"\n", 0, begin)
        if begin < 0:
            return 0
    return begin + 1


def _shown(line: bytes) -> bytes:
    """Return what a terminal would show of a line that was drawn several times over."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :][:LINE_BYTES]
