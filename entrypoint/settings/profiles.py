"""Packaged profiles: settings that are known to work together, each with its reason.

Listing them is part of the command's help, so that this module must not import the schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from entrypoint.outcome import ExitCode, SuperviseError

_SUFFIX = ".toml"
_DIRECTORY = Path(__file__).with_name("profiles")


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen with a memory fraction.

    Attributes:
        nodes: Nodes of the server.
        mem_fraction_static: The fraction, before any derate.
        what: What became of it, in one clause.
        kind: "measured", or "comment" where only a recipe says so.
    """

    nodes: int
    mem_fraction_static: float
    what: str
    kind: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A packaged profile.

    Attributes:
        name: What ``--profile`` takes.
        title: What it is for, in one line.
        about: The engine it was made for, and what was verified when, beside the title.
        nodes: Nodes of one server.
        family: The model's family: which parsers belong to it, and which kernels it builds.
        values: The settings, as tables of a settings file.
        reasons: Why each setting is as it is, by dotted name.
        seen: What is known of memory fractions.
    """

    name: str
    title: str
    about: Mapping[str, str]
    nodes: int
    family: str
    values: Mapping[str, object]
    reasons: Mapping[str, str]
    seen: tuple[Seen, ...]


def names() -> tuple[str, ...]:
    """Return the names of all packaged profiles, sorted."""
    found = (entry.name for entry in _DIRECTORY.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))


def read(name: str) -> Profile:
    """Read a packaged profile.

    Raises:
        SuperviseError: There is none of this name.
    """
    if name not in names():
        raise _unknown(name)
    # Only reading one needs the parser: listing stays as quick as it can be.
    import tomli

    document = tomli.loads((_DIRECTORY / f"{name}{_SUFFIX}").read_text("utf-8"))
    about = document["about"]
    return Profile(
        name=name,
        title=about["title"],
        about={key: text for key, text in about.items() if isinstance(text, str) and key != "family"},
        nodes=about["nodes"],
        family=about["family"],
        values=document["settings"],
        reasons=document["reasons"],
        seen=tuple(Seen(**row) for row in document.get("seen", ())),
    )


def _unknown(name: str) -> SuperviseError:
    similar = get_close_matches(name, names(), n=1)
    guess = f"Did you mean {similar[0]!r}? " if similar else ""
    return SuperviseError(
        f"profile: there is no packaged profile {name!r}",
        remedy=f"{guess}The packaged profiles are: {', '.join(names())}.",
        code=ExitCode.CONFIGURATION,
    )
