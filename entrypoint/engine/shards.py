"""The weight files of a checkpoint: which there should be, and what is there."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrypoint.engine.checkpoint_files import is_pointer, read_object, size_bytes
from entrypoint.findings import Finding, Severity

_INDEX_FILE: Final = "model.safetensors.index.json"
_WEIGHT_PATTERNS: Final = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
_NUMBERED: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d+)-of-(?P<total>\d+)(?P<suffix>\.\w+)")
_NAMED_AT_MOST: Final = 3
_SHARDS_AT_MOST: Final = 10_000
"""Several times what any model has; a file name cannot make the list longer."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The weight files of a checkpoint.

    Attributes:
        expected: Names that the index lists, or those present where there is no index.
        missing: Expected ones that are not there.
        empty: Those of no bytes at all.
        pointers: Those that are Git LFS pointers instead of weights.
        total_bytes: Size of those present.
        index_problem: Why the index could not be read, if it is there and could not.
    """

    expected: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    pointers: tuple[str, ...] = ()
    total_bytes: int = 0
    index_problem: str | None = None

    @property
    def present(self) -> int:
        """How many of the expected files are there."""
        return len(self.expected) - len(self.missing)


def read_shards(directory: Path) -> Shards:
    """Return the state of the weight files."""
    try:
        expected = _expected_shards(directory)
    except (OSError, ValueError) as error:
        return Shards(index_problem=str(error))
    sizes = {name: size_bytes(directory / name) for name in expected}
    return Shards(
        expected=expected,
        missing=tuple(name for name, size in sizes.items() if size is None),
        empty=tuple(name for name, size in sizes.items() if size == 0),
        pointers=tuple(name for name, size in sizes.items() if size and is_pointer(directory / name)),
        total_bytes=sum(size or 0 for size in sizes.values()),
    )


def _expected_shards(directory: Path) -> tuple[str, ...]:
    """Return the weight files that the index names, or those that are there without one."""
    index = directory / _INDEX_FILE
    if size_bytes(index) is None:
        patterns = (tuple(path.name for path in directory.glob(pattern)) for pattern in _WEIGHT_PATTERNS)
        return _with_their_series(next((names for names in patterns if names), ()))
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError("it has no weight_map")
    return tuple(sorted({str(name) for name in weight_map.values()}))


def _with_their_series(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return file names with all others that names such as ``model-00002-of-00004.safetensors`` imply."""
    complete = set(names)
    for match in filter(None, map(_NUMBERED.fullmatch, names)):
        width, total = len(match["number"]), match["total"]
        complete |= {
            f"{match['stem']}-{number:0{width}}-of-{total}{match['suffix']}"
            for number in range(1, min(int(total), _SHARDS_AT_MOST) + 1)
        }
    return tuple(sorted(complete))


def missing_finding(directory: Path, shards: Shards) -> Finding | None:
    """Report weights that are not there."""
    if shards.index_problem is not None:
        message = f"{directory / _INDEX_FILE} cannot be read: {shards.index_problem}."
    elif not shards.expected:
        message = f"{directory} holds no weights ({', '.join(_WEIGHT_PATTERNS)})."
    elif shards.missing:
        message = (
            f"{len(shards.missing)} of {len(shards.expected)} weight files are missing in {directory}: "
            f"{_named(shards.missing)}."
        )
    else:
        return None
    return _finding(message, "Copy or download the model again.")


def damage_findings(directory: Path, shards: Shards) -> tuple[Finding, ...]:
    """Report weights that are there and hold nothing."""
    found = []
    if shards.empty:
        found.append(
            _finding(
                f"Weight files of zero bytes in {directory}: {_named(shards.empty)}.",
                "Copy them again: the last copy was interrupted, or the file system or quota was full.",
            )
        )
    if shards.pointers:
        found.append(
            _finding(
                f"Git LFS pointers instead of weights in {directory}: {_named(shards.pointers)}.",
                "Run `git lfs pull` there, or download the model with `hf download`.",
            )
        )
    return tuple(found)


def _named(names: tuple[str, ...]) -> str:
    """Return the first names of many."""
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def _finding(message: str, remedy: str) -> Finding:
    """Return an error of the configuration: which model is served is a setting."""
    return Finding("model-shards", Severity.ERROR, message, remedy, "model.path")
