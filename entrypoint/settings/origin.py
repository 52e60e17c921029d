"""Origins: which layer set a value, and where exactly."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

KeyPath = tuple[str, ...]
"""The keys that lead to one setting, such as ``("engine", "port")``."""

PREFIX = "SUPERVISE_"
"""What the name of every environment variable of ours begins with."""


class Layer(StrEnum):
    """Where values come from, weakest first."""

    DEFAULT = "default"
    PROFILE = "profile"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one value was set.

    Attributes:
        layer: The layer that won.
        source: The exact place in words: ``default``, ``profile tiny``, ``/path/supervise.toml:12``,
            ``SUPERVISE_ENGINE__PORT`` or ``--engine.port``.
    """

    layer: Layer
    source: str


DEFAULT = Origin(Layer.DEFAULT, "default")


def dotted(path: KeyPath) -> str:
    """Return a setting's name as users write it; keys that cannot be printed plainly are quoted."""
    return ".".join(key if key and key.isprintable() else ascii(key) for key in path)


def spelled(layer: Layer, path: KeyPath) -> str:
    """Return a setting's name as it is written in a layer."""
    match layer:
        case Layer.DEFAULT | Layer.PROFILE | Layer.FILE:
            return dotted(path)
        case Layer.ENVIRONMENT:
            # What the user names inside engine.env keeps its case; every other key is upper case by custom.
            return PREFIX + "__".join([*(key.upper() for key in path[:2]), *path[2:]])
        case Layer.COMMAND_LINE:
            return f"--{dotted(path)}"
        case _:
            assert_never(layer)
