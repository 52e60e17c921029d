"""APU memory: what the driver has given to each GPU.

On an MI300A ``mem_info_vram_total`` is 0: the driver takes what a program asks for as VRAM from the GTT, which is the
node's own memory (Linux 6.x, amdgpu). On a GPU with memory of its own both are of interest.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrypoint.node.kernel_file import number

_CARD: Final = re.compile(r"card(\d{1,6})", re.ASCII)
"""A card itself; its connectors are called ``card0-DP-1`` and the like."""


@dataclass(frozen=True, slots=True)
class ApuMemory:
    """Memory that the driver has given to one GPU.

    Attributes:
        card: Its name below /sys/class/drm.
        gtt_total_bytes: How much of the node's memory it may be given.
        gtt_used_bytes: How much of that it has.
        vram_total_bytes: Memory of its own; 0 on an APU.
        vram_used_bytes: How much of that is used.
    """

    card: str
    gtt_total_bytes: int
    gtt_used_bytes: int
    vram_total_bytes: int = 0
    vram_used_bytes: int = 0

    @property
    def used_bytes(self) -> int:
        """What it uses, wherever that lies."""
        return self.gtt_used_bytes + self.vram_used_bytes


def apu_memory(root: Path = Path("/")) -> tuple[ApuMemory, ...]:
    """Return the memory of each GPU of the amdgpu driver, in the order of their numbers."""
    directory = f"{root}/sys/class/drm"
    try:
        names = os.listdir(directory)  # noqa: PTH208  # once a second: Path objects cost more than the look itself
    except OSError:
        return ()
    numbers = sorted(int(match[1]) for match in map(_CARD.fullmatch, names) if match)
    cards = (_card(f"card{each}", f"{directory}/card{each}/device") for each in numbers)
    return tuple(card for card in cards if card is not None)


def _card(name: str, device: str) -> ApuMemory | None:
    total_bytes, used_bytes = number(f"{device}/mem_info_gtt_total"), number(f"{device}/mem_info_gtt_used")
    if total_bytes is None or used_bytes is None:
        return None
    vram_total_bytes = number(f"{device}/mem_info_vram_total") or 0
    vram_used_bytes = number(f"{device}/mem_info_vram_used") or 0 if vram_total_bytes else 0
    return ApuMemory(name, total_bytes, used_bytes, vram_total_bytes, vram_used_bytes)
