"""Pressure: how much is waited for memory, and whom the kernel has killed for want of it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrypoint.node.kernel_file import content, field

_LINE: Final = re.compile(rb"^(some|full) avg10=(\d{1,3}\.\d{1,6}) ", re.MULTILINE)
_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class Pressure:
    """How much of the last ten seconds was waited for memory (/proc/pressure/memory), as ratios.

    Attributes:
        some: Share of the time in which at least one process waited.
        full: Share of the time in which nobody did anything else.
    """

    some: float
    full: float


def memory_pressure(root: Path = Path("/")) -> Pressure | None:
    """Return the pressure on the node's memory; None where the kernel does not measure it."""
    found = {
        match[1]: float(match[2]) / _PERCENT for match in _LINE.finditer(content(f"{root}/proc/pressure/memory") or b"")
    }
    return Pressure(found[b"some"], found[b"full"]) if found.keys() >= {b"some", b"full"} else None


def node_oom_kills(root: Path = Path("/")) -> int | None:
    """Return how many processes the kernel has killed for want of memory since it started; None where unknown."""
    return field(content(f"{root}/proc/vmstat"), b"oom_kill")
