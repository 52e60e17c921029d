"""Settings that matter for a report: what somebody has set, and a few that always matter."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from entrypoint.settings.layers import ResolvedSettings
from entrypoint.settings.origin import KeyPath, Layer, dotted
from entrypoint.settings.redaction import Masker

ALWAYS = frozenset(
    {
        "model.path",
        "model.context_length",
        "engine.mem_fraction_static",
        "engine.attention_backend",
        "engine.reasoning_parser",
        "engine.tool_call_parser",
        "topology.tensor_parallel",
        "topology.pipeline_parallel",
    }
)
"""Named in a report even where nobody has set them."""


@dataclass(frozen=True, slots=True)
class SettingShown:
    """One setting of a run.

    Attributes:
        name: Its dotted name; ``--`` for the words that go to the engine unread.
        value: As JSON has it; None where nothing is set, ``""`` where the engine's flag is left out.
        layer: Which layer set it.
        source: Where exactly, in words.
    """

    name: str
    value: Any
    layer: str
    source: str


def settings_shown(resolved: ResolvedSettings, masker: Masker) -> tuple[SettingShown, ...]:
    """Return what a report shows of a run's settings, in the schema's order.

    Args:
        resolved: The settings and where each came from.
        masker: Removes secrets, also those that only a setting's name shows to be one.
    """
    values = masker.mask_value(dict(_flat(resolved.settings.model_dump(mode="json"))))
    shown = [
        SettingShown(name, values[name], origin.layer, origin.source)
        for name, origin in resolved.origins.items()
        if origin.layer is not Layer.DEFAULT or name in ALWAYS
    ]
    if resolved.extra_arguments:
        shown.append(
            SettingShown(
                "--", masker.mask_value(resolved.extra_arguments), Layer.COMMAND_LINE, "behind -- on the command line"
            )
        )
    return tuple(shown)


def _flat(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every setting by its dotted name; a table whose keys the user chooses, key by key and as a whole."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _below((name,), value)
        else:
            yield dotted((name,)), value


def _below(path: KeyPath, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if len(path) == 1 and isinstance(value, Mapping):
            yield from _below((*path, key), value)
        yield dotted((*path, key)), value
