"""Where a model's files are: a directory, a snapshot in the Hugging Face cache, or not here yet."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Final

from entrypoint.engine.paths import expanded
from entrypoint.findings import Finding, Severity

_SETTING: Final = "model.path"
_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
"""What the hub accepts as a repository's name: an owner and a name, or one of the old names without an owner."""
_HUB_ID_CHARACTERS: Final = 96
"""The longest name that huggingface_hub accepts (``validate_repo_id``)."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class ModelSource(StrEnum):
    """What the name of a model turned out to be."""

    DIRECTORY = "directory"
    """A directory on this machine."""
    SNAPSHOT = "snapshot"
    """A hub model with files in the cache; missing ones can still be downloaded."""
    NOT_DOWNLOADED = "not-downloaded"
    """A hub model without files in the cache."""
    FOREIGN = "foreign"
    """A single GGUF file or an address of another storage, which the engine reads by itself."""
    MISSING = "missing"
    """Neither a directory that exists nor a name that the hub could know."""
    NOT_A_DIRECTORY = "not-a-directory"
    """A file, of no kind that the engine reads."""
    FORBIDDEN = "forbidden"
    """A directory that this user may not read."""


@dataclass(frozen=True, slots=True)
class ModelLocation:
    """Where a model's files are.

    Attributes:
        model: The model as the user named it.
        source: What that is.
        directory: Where its files lie, where there are any.
    """

    model: str
    source: ModelSource
    directory: Path | None = None


def hub_directory(environment: Mapping[str, str], home: Path) -> Path:
    """Return the hub cache, as huggingface_hub finds it from the engine's environment."""
    if environment.get("HF_HUB_CACHE"):
        return expanded(environment["HF_HUB_CACHE"])
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    return expanded(environment.get("HF_HOME") or cache / "huggingface") / "hub"


def locate(model: str, *, hub: Path, revision: str | None = None) -> ModelLocation:
    """Return where a model's files are.

    Args:
        model: Hub id or directory. A directory of that name wins over the hub, as it does in the engine.
        hub: The hub cache, holding ``models--owner--name``.
        revision: Branch, tag or commit of a hub model.
    """
    path = expanded(model)
    local = _local_source(path)
    if local is not None:
        return ModelLocation(model, local, path if local is ModelSource.DIRECTORY else None)
    if "://" in model:
        return ModelLocation(model, ModelSource.FOREIGN)
    if len(model) > _HUB_ID_CHARACTERS or not _HUB_ID.fullmatch(model):
        return ModelLocation(model, ModelSource.MISSING)
    snapshot = _snapshot(hub / f"models--{model.replace('/', '--')}", revision or "main")
    if snapshot is None:
        return ModelLocation(model, ModelSource.NOT_DOWNLOADED)
    return ModelLocation(model, ModelSource.SNAPSHOT, snapshot)


def location_finding(location: ModelLocation) -> Finding | None:
    """Return what is wrong with a model's place, or worth knowing about it."""
    match location.source:
        case ModelSource.MISSING:
            return _missing(location.model)
        case ModelSource.NOT_A_DIRECTORY:
            return Finding(
                "model-missing",
                Severity.ERROR,
                f"The model {location.model} is a file, not the directory of a checkpoint.",
                "Give the directory that holds config.json and the weights.",
                _SETTING,
            )
        case ModelSource.FORBIDDEN:
            return Finding(
                "model-missing",
                Severity.ERROR,
                f"The model directory {location.model} may not be read by this user.",
                "Ask its owner to make it readable, or set model.path to another copy.",
                _SETTING,
            )
        case ModelSource.NOT_DOWNLOADED:
            return Finding(
                "model-not-downloaded",
                Severity.NOTE,
                f"The model {location.model} is not in the Hugging Face cache; the engine will download it.",
                "Download it before the job, or let the start take as long as the download.",
                _SETTING,
            )
        case ModelSource.DIRECTORY | ModelSource.SNAPSHOT | ModelSource.FOREIGN:
            return None


def _local_source(path: Path) -> ModelSource | None:
    """Return what a path is on this machine, or None where there is nothing."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return ModelSource.FORBIDDEN
    except (OSError, ValueError):  # nothing there, or a name that no file system can hold
        return None
    if stat.S_ISDIR(mode):
        return ModelSource.DIRECTORY if os.access(path, os.R_OK | os.X_OK) else ModelSource.FORBIDDEN
    return ModelSource.FOREIGN if path.suffix == ".gguf" else ModelSource.NOT_A_DIRECTORY


def _snapshot(repository: Path, revision: str) -> Path | None:
    """Return the cached snapshot of a revision; a branch or tag is a file that holds its commit."""
    try:
        commit = (repository / "refs" / revision).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        commit = revision
    snapshot = repository / "snapshots" / commit
    return snapshot if _COMMIT.fullmatch(commit) and snapshot.is_dir() else None


def _missing(model: str) -> Finding:
    """Describe a directory that is not there, by what is there instead."""
    path = expanded(model)
    existing = next(parent for parent in path.absolute().parents if os.path.isdir(parent))  # noqa: PTH112  # takes any name
    wanted = path.absolute().relative_to(existing).parts[0]
    nearest = get_close_matches(wanted, _directories(existing), n=1)
    if nearest:
        remedy = f"Set model.path to a directory that exists, such as {existing / nearest[0]}."
    else:
        remedy = f"Set model.path to a directory that exists or to a hub id; {existing} has nothing named alike."
    return Finding(
        "model-missing",
        Severity.ERROR,
        f"The model directory {model} does not exist: {existing} holds no {wanted}.",
        remedy,
        _SETTING,
    )


def _directories(parent: Path) -> list[str]:
    """Return the names of the directories in a directory; one that may not be listed has none to offer."""
    try:
        return [entry.name for entry in parent.iterdir() if entry.is_dir()]
    except OSError:
        return []
