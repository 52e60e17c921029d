"""Accelerators: the GPUs that the kernel's compute driver shows, as plain data (the KFD topology of amdgpu)."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from entrypoint.node.kernel_file import content, field

_NUMBER = re.compile(r"\d{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One GPU.

    Attributes:
        architecture: As compilers name it, such as gfx942.
        compute_units: How many it has; an MI300A has 228.
    """

    architecture: str
    compute_units: int


def accelerators(root: Path = Path("/")) -> tuple[Accelerator, ...]:
    """Return the GPUs in the order of their numbers; nodes of the topology without compute units are processors."""
    directory = f"{root}/sys/class/kfd/kfd/topology/nodes"
    try:
        names = sorted((name for name in os.listdir(directory) if _NUMBER.fullmatch(name)), key=int)  # noqa: PTH208
    except OSError:
        return ()
    found = (_accelerator(content(f"{directory}/{name}/properties")) for name in names)
    return tuple(each for each in found if each is not None)


def _accelerator(properties: bytes | None) -> Accelerator | None:
    units, per_unit = field(properties, b"simd_count"), field(properties, b"simd_per_cu")
    version = field(properties, b"gfx_target_version")
    if not units or not per_unit or version is None:
        return None
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return Accelerator(f"gfx{major}{minor:x}{step:x}", units // per_unit)
