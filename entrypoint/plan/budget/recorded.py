"""Recorded shapes: what is known of models whose files are not at hand, as on a login node."""

import json
from dataclasses import dataclass
from pathlib import Path

from entrypoint.plan.budget.memory import GIB
from entrypoint.plan.budget.shape import ModelShape, shape_of

_DIRECTORY = Path(__file__).with_name("recorded")


@dataclass(frozen=True, slots=True)
class RecordedShape:
    """A model's shape that was written down.

    Attributes:
        model: Its hub id.
        shape: The shape.
        source: Where each number is from.
    """

    model: str
    shape: ModelShape
    source: str


def recorded(model: str) -> RecordedShape | None:
    """Return the shape of a hub model that was written down; None where it was not."""
    return next((found for found in map(_read, sorted(_DIRECTORY.glob("*.json"))) if found.model == model), None)


def _read(path: Path) -> RecordedShape:
    document = json.loads(path.read_text(encoding="utf-8"))
    weights, stages = document["weights_gib"], document["stage_gib"]
    shape = shape_of(
        document["config"],
        None if weights is None else weights * GIB,
        {int(number): tuple(size * GIB for size in sizes) for number, sizes in stages.items()},
    )
    if shape is None:
        raise ValueError(f"{path.name} describes no model")
    return RecordedShape(document["model"], shape, document["source"])
