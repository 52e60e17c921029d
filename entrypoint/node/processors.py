"""Processors: how many this process may use, of how many the node has."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from entrypoint.node.kernel_file import content

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Processors:
    """Logical processors.

    Attributes:
        allowed: How many this process may run on: the truth in a Slurm step, where the node's number is not.
        online: How many the node has; None where the kernel does not say.
    """

    allowed: int
    online: int | None


def processors(root: Path = Path("/")) -> Processors:
    """Return the processors of this process and of the node."""
    text = (content(f"{root}/sys/devices/system/cpu/online") or b"").decode("ascii", "replace").strip()
    ranges = [_RANGE.fullmatch(part) for part in text.split(",")]
    known = [(int(found[1]), int(found[2] or found[1])) for found in ranges if found]
    online = sum(last - first + 1 for first, last in known) if len(known) == len(ranges) else None
    return Processors(len(os.sched_getaffinity(0)), online)
