"""What a memory budget is made from, read in bounded time: the model's files, and the node's memory."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from entrypoint.engine import checkpoint
from entrypoint.engine.model_location import hub_directory, locate
from entrypoint.node.accelerators import accelerators
from entrypoint.node.meminfo import node_memory
from entrypoint.plan.budget.facts import MemoryFacts
from entrypoint.plan.budget.recorded import recorded
from entrypoint.plan.budget.shape import ModelShape, shape_of
from entrypoint.settings.schema import Settings

LOOK_S = 5.0
"""Seconds after which the model's files are left alone: a hung file system must not hold a plan."""
Seen = TypeVar("Seen")


def memory_facts(settings: Settings, environ: Mapping[str, str], home: Path, root: Path = Path("/")) -> MemoryFacts:
    """Return what is known of the model's needs and of this node's memory.

    Args:
        settings: What the user wants.
        environ: The caller's environment, with the place of the hub.
        home: The caller's home directory.
        root: Where /proc and /sys are.
    """
    shape, shape_source = _shape(settings, environ, home)
    memory = node_memory(root)
    if memory is not None and (settings.engine.device == "cpu" or accelerators(root)):
        return MemoryFacts(shape, shape_source, memory.available_bytes, "what this node has available now")
    return MemoryFacts(shape, shape_source)


def _shape(settings: Settings, environ: Mapping[str, str], home: Path) -> tuple[ModelShape | None, str]:
    model, revision = settings.model.path, settings.model.revision
    if not model:
        return None, "no model is named"
    hub = hub_directory(environ, home)
    found = _in_time(lambda: _of_files(model, hub, revision))
    if found is not None:
        return found
    known = recorded(model)
    if known is None:
        return None, f"the files of {model} are not here, and nothing is written down about it"
    return known.shape, known.source


def _of_files(model: str, hub: Path, revision: str | None) -> tuple[ModelShape | None, str] | None:
    """Return what the model's files say; None where they are not here."""
    directory = locate(model, hub=hub, revision=revision).directory
    if directory is None:
        return None
    files = checkpoint.inspect(directory)
    shape = shape_of(files.config, files.shards.total_bytes or None)
    source = f"config.json and weight files in {directory}"
    return shape, source if shape is not None else f"the config.json in {directory} describes no known kind of model"


def _in_time(look: Callable[[], Seen]) -> Seen | None:
    """Return what a look sees; None where it does not come back in time, or fails."""
    seen: list[Seen] = []

    def body() -> None:
        seen.append(look())

    thread = threading.Thread(target=body, name="model", daemon=True)
    thread.start()
    thread.join(LOOK_S)
    return seen[0] if seen else None
