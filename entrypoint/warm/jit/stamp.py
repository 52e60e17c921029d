"""The stamp: says that everything which the engine is known to need is built, and lies there.

It names each library with its size, so that a purge which took some of them shows, and is looked at in milliseconds.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entrypoint.plan.caches import CacheDirectory
from entrypoint.warm.jit.step import Step
from entrypoint.warm.whole_file import write_json

DIRECTORY = "stamps"
LARGEST_BYTES = 8 << 20
MOST_FILES = 20_000
FLAGS_THAT_MATTER = (
    "attention_backend",
    "chunked_prefill_size",
    "decode_attention_backend",
    "dtype",
    "enable_torch_compile",
    "kv_cache_dtype",
    "moe_runner_backend",
    "page_size",
    "pp_size",
    "prefill_attention_backend",
    "quantization",
    "sampling_backend",
    "speculative_algorithm",
    "tp_size",
)
"""The engine's arguments that choose other kernels, by destination (SGLang 0.5.23)."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a stamp is about.

    Attributes:
        key: The directory of the cache key: software, architecture, family.
        flags: The engine's arguments that choose kernels.
        steps: What is built for it.
    """

    key: str
    flags: Mapping[str, tuple[str, ...]]
    steps: tuple[Step, ...]

    @property
    def data(self) -> dict[str, Any]:
        """It as JSON data; equal where it is."""
        return {
            "key": self.key,
            "flags": {name: list(values) for name, values in sorted(self.flags.items())},
            "steps": [[step.name, step.call, step.module] for step in self.steps],
        }

    @property
    def file_name(self) -> str:
        """The name of its stamp's file."""
        return hashlib.sha256(json.dumps(self.data, sort_keys=True).encode()).hexdigest()[:16] + ".json"


@dataclass(frozen=True, slots=True)
class Stamp:
    """A stamp as it was read.

    Attributes:
        files: Each library's size in bytes, by its path below the tree.
        failed: Why a step could not be built, by its name: the same software would fail the same.
    """

    files: Mapping[str, int]
    failed: Mapping[str, str]


def subject(key: str, meaning: Mapping[str, tuple[str, ...]], steps: tuple[Step, ...]) -> Subject:
    """Return what a stamp for a plan is about.

    Args:
        key: The directory of the cache key.
        meaning: What the engine's arguments set, by destination.
        steps: What is built.
    """
    return Subject(key, {name: meaning[name] for name in FLAGS_THAT_MATTER if name in meaning}, steps)


def read(tree: Path, about: Subject) -> Stamp | None:
    """Return the stamp that a tree has for a subject; None where it has none, or what is there is no stamp."""
    try:
        with (tree / DIRECTORY / about.file_name).open("rb") as file:
            document = json.loads(file.read(LARGEST_BYTES))
        if document["about"] != about.data:
            return None
        files = {str(path): int(size) for path, size in document["files"].items()}
        return Stamp(files, {str(name): str(reason) for name, reason in document["failed"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # not there, torn or of another kind: it is made anew


def missing(stamp: Stamp, tree: Path) -> tuple[str, ...]:
    """Return what a stamp names and a tree does not hold, or not in the same size."""
    return tuple(path for path, size in stamp.files.items() if _size(f"{tree}/{path}") != size)


def libraries(caches: Iterable[CacheDirectory], tree: Path) -> dict[str, int]:
    """Return every file in a tree's kept caches of aiter and torch with its size: what a stamp vouches for."""
    return dict(_below(caches, tree))


def _below(caches: Iterable[CacheDirectory], tree: Path) -> Iterator[tuple[str, int]]:
    left = MOST_FILES
    for cache in caches:
        for rule in cache.entries if cache.variable in BUILT_AHEAD else ():
            for found in sorted((tree / cache.place).glob(rule.pattern)):
                path = found / rule.holds if rule.holds else found
                for library in sorted(path.parent.glob(path.name)):
                    size = _size(str(library))
                    if size is not None and left > 0:
                        left -= 1
                        yield str(library.relative_to(tree)), size


BUILT_AHEAD = frozenset({"AITER_JIT_DIR", "AITER_ROOT_DIR", "TORCH_EXTENSIONS_DIR", "TVM_FFI_CACHE_DIR"})
"""The caches that steps build into; the others fill themselves, and lose little when they are cold."""


def write(tree: Path, about: Subject, stamp: Stamp) -> None:
    """Put a stamp into a tree, whole or not at all.

    Raises:
        OSError: The tree cannot be written.
    """
    document = {"about": about.data, "files": dict(stamp.files), "failed": dict(stamp.failed)}
    write_json(tree / DIRECTORY / about.file_name, document)


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116  # hundreds of times within milliseconds
    except OSError:
        return None
