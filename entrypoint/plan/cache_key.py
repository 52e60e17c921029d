"""The cache key: compiled code is of use only to the software, the GPU and the kind of model that it was built for."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from entrypoint.engine.stack import EngineStack
from entrypoint.plan.families import family_of

ANY_FAMILY = "any"
NO_GPU = "cpu"
_UNFIT = re.compile(r"[^a-z0-9._+-]+")


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What caches are for.

    Attributes:
        software: The image's build, or the versions of the engine and what it stands on.
        architecture: Of the GPUs, such as gfx942; ``cpu`` where there are none.
        family: Of the model, such as kimi-k2; ``any`` where none is known.
    """

    software: str
    architecture: str
    family: str

    @property
    def directory(self) -> PurePosixPath:
        """The directory of everything under this key, below a layer's root."""
        return PurePosixPath(self.software, self.architecture, self.family)


def cache_key(wished: str, stack: EngineStack, architecture: str, model: str) -> CacheKey:
    """Return the key of what a run may share with others.

    Args:
        wished: ``caches.key``: a word of the user's own for the software, or ``auto``.
        stack: The engine and what it stands on.
        architecture: Of the node's GPUs; empty where there are none.
        model: Hub id or directory.
    """
    software = wished if wished != "auto" else stack.build_id or stack.versions
    family = family_of(model)
    return CacheKey(
        _name(software) or "unknown", _name(architecture) or NO_GPU, _name(family.name if family else "") or ANY_FAMILY
    )


def _name(text: str) -> str:
    """Return a text as the name of a directory, readable and without surprises."""
    return _UNFIT.sub("-", text.lower()).strip("-.")
