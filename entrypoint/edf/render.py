"""Writing an EDF for a profile on so many nodes of a site."""

import json
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from entrypoint.edf.presets import presets_for
from entrypoint.settings.profiles import Profile
from entrypoint.settings.texts import IMAGE_VARIABLE
from entrypoint.site.site import EnvironmentRow, Site

_TEMPLATES = Path(__file__).with_name("templates")


def edf_name(profile: str, nodes: int) -> str:
    """Return the name of the EDF for a profile's server on so many nodes, as srun looks it up."""
    return f"{profile}-1node" if nodes == 1 else f"{profile}-{nodes}nodes"


def render(profile: Profile, nodes: int, site: Site) -> str:
    """Return the text of an EDF.

    Args:
        profile: What is served.
        nodes: Nodes that one server spans: only between several are the fabric's hooks right.
        site: The cluster.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701  # TOML, whose texts have the filter below
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["toml"] = _toml
    text: str = environment.get_template("edf.toml.j2").render(
        profile=profile,
        nodes=nodes,
        site=site,
        name=edf_name(profile.name, nodes),
        image=f"${{{IMAGE_VARIABLE}}}",
        image_variable=IMAGE_VARIABLE,
        variables=tuple(_variables(profile, nodes, site)),
        annotations=site.fabric.annotations if nodes > 1 else {},
    )
    return text


def _variables(profile: Profile, nodes: int, site: Site) -> Iterator[EnvironmentRow]:
    for preset in presets_for(profile.family):
        reason = f"{preset.reason}; images preset {preset.preset}"
        yield EnvironmentRow(name=preset.name, value=preset.value, reason=reason)
    yield from site.container.env
    if nodes > 1:
        yield from site.fabric.env


def _toml(value: str) -> str:
    """Return a text as TOML writes it; its basic strings are those of JSON."""
    return json.dumps(value, ensure_ascii=False)
