"""The fabric: its devices, its interfaces and the collectives' plugin, as a container shows them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_DEVICE = re.compile(r"cxi\d+", re.ASCII)
_INTERFACE = re.compile(r"hsn\d+", re.ASCII)
PLUGINS = ("librccl-net.so", "libnccl-net.so")
"""The collectives' network plugin, as RCCL and NCCL look for it where no other is named."""
HOOKS_PLACE = "/opt/cscs/netstack"
"""Where the Container Engine's hook puts the host's network libraries."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """What there is of a Slingshot fabric.

    Attributes:
        devices: The devices of its network cards.
        interfaces: Their interfaces.
        plugin: The collectives' plugin that would be loaded; None where none is found.
    """

    devices: tuple[str, ...]
    interfaces: tuple[str, ...]
    plugin: str | None


def fabric(environ: Mapping[str, str], root: Path = Path("/")) -> Fabric:
    """Return what there is of the fabric.

    Args:
        environ: The engine's environment, with its library path.
        root: Where /dev, /sys and the libraries are.
    """
    return Fabric(
        _names(root / "dev", _DEVICE),
        _names(root / "sys/class/net", _INTERFACE),
        _plugin(environ, root),
    )


def _names(directory: Path, pattern: re.Pattern[str]) -> tuple[str, ...]:
    try:
        return tuple(sorted(name for name in os.listdir(directory) if pattern.fullmatch(name)))  # noqa: PTH208
    except OSError:
        return ()


def _plugin(environ: Mapping[str, str], root: Path) -> str | None:
    named = environ.get("NCCL_NET_PLUGIN", "")
    wanted = [named, f"librccl-net-{named}.so", f"libnccl-net-{named}.so", *PLUGINS] if named else [*PLUGINS]
    places = [part for part in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if part.startswith("/")]
    for place in (*places, HOOKS_PLACE):
        for name in wanted:
            path = Path(name if name.startswith("/") else f"{place}/{name}")
            if (root / path.relative_to("/")).is_file():
                return str(path)
    return None
