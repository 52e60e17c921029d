"""Carriers: what passed a log on, and put words of its own before each line."""

import re
from dataclasses import dataclass

CARRIED_SHARE = 0.9
"""Share of lines that begin alike from which on those beginnings are a carrier's."""
_COLOUR = rb"(?:\x1b\[[\d;]*m)*"
_RFC3339 = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"
_UNIT = rb"\S+ [^\s:\[\]]+(?:\[\d+\])?: "
_WORDS = (
    (rb"[A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d " + _UNIT, b""),  # journalctl and syslog
    (_RFC3339 + rb" " + _UNIT, b""),  # journalctl --output short-iso
    (_RFC3339 + rb" std(?:out|err) [FP] ", b""),  # the files of a Kubernetes node
    (_RFC3339 + rb" ", b""),  # docker logs --timestamps
    (rb"\[pod/[^\]\s]+\] ", b""),  # kubectl logs --prefix
    (rb"[A-Za-z][\w.-]* +\| ", b""),  # docker compose logs
    (rb"\d+:(?! )", b""),  # grep --line-number; a label of srun has a space
    (rb"\[\d+,(\d+)\]<std(?:out|err)>: ?", rb"\1: "),  # mpirun --tag-output, as srun --label writes it
)


@dataclass(frozen=True, slots=True)
class Carrier:
    """What puts words before lines.

    Attributes:
        words: The words.
        instead: What stands there instead in the engine's own output.
    """

    words: re.Pattern[bytes]
    instead: bytes

    def share(self, block: bytes) -> float:
        """Return the share of lines of a block that begin with its words."""
        return sum(1 for _ in self.words.finditer(block)) / max(block.count(b"\n"), 1)

    def strip(self, block: bytes) -> bytes:
        """Return the lines as the engine printed them."""
        return self.words.sub(self.instead, block)


_CARRIERS = tuple(Carrier(re.compile(rb"(?m)^" + _COLOUR + words + _COLOUR), instead) for words, instead in _WORDS)


def carrier_of(block: bytes) -> Carrier | None:
    """Return what put words before the lines of a block; None where nothing did."""
    return next((carrier for carrier in _CARRIERS if carrier.share(block) >= CARRIED_SHARE), None)
