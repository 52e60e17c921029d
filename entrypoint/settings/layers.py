"""Layers: defaults, profile, files, environment and command line become one set of settings with its provenance.

A key that is absent takes the layer below; ``""`` is a value like any other and beats what is weaker. Keys of
``engine.args`` and ``engine.env`` are merged one by one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from entrypoint.outcome import SuperviseError
from entrypoint.settings import catalogue, files, profiles, texts
from entrypoint.settings.origin import DEFAULT, KeyPath, Layer, Origin, dotted
from entrypoint.settings.problems import Problem, refusal
from entrypoint.settings.reading import Given, Reading, read_tree, wrong_type
from entrypoint.settings.schema import Settings

__all__ = ["Layer", "Origin", "ResolvedSettings", "load"]

ETC = Path("/etc/supervise/supervise.toml")
"""The machine's settings file, read when nothing else is named or lies in the working directory."""

_PROFILE = ("profile",)


@dataclass(frozen=True)
class ResolvedSettings:
    """The settings of a run, and where each came from.

    Attributes:
        settings: The settings, validated.
        origins: Where each was set, by dotted name; a key of ``engine.args`` or ``engine.env`` has its own.
        profile: The packaged profile that they build on; None where they build on none.
        files: The settings files that were read, weakest first.
        extra_arguments: Flags for the engine that the command line hands through unread.
    """

    settings: Settings
    origins: Mapping[str, Origin]
    files: tuple[Path, ...]
    extra_arguments: tuple[str, ...]
    profile: profiles.Profile | None = None

    def origin(self, name: str) -> Origin:
        """Return where a setting was set.

        Args:
            name: Its dotted name, such as ``engine.port`` or ``engine.args.language-only``.

        Raises:
            KeyError: No such setting exists, or no layer sets this key of an open table.
        """
        return self.origins[name]


def load(
    *,
    profile: str | None,
    config_files: Sequence[Path],
    overrides: Sequence[tuple[str, str]],
    extra_arguments: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    etc: Path = ETC,
) -> ResolvedSettings:
    """Read all layers and merge them.

    Args:
        profile: The profile that the command line names, if it does.
        config_files: The files that the command line names, weakest first.
        overrides: Dotted names and values of the command line's other options, in their order.
        extra_arguments: Flags for the engine, handed through.
        environ: The environment.
        cwd: The working directory, against which relative paths of files are read.
        etc: The machine's settings file.

    Raises:
        SuperviseError: Something is wrong with a layer; it reports all problems of all layers.
    """
    places = files.choose(config_files, environ, cwd, etc)
    options = [*overrides, *([] if profile is None else [("profile", profile)])]
    stronger = [*map(files.read, places), texts.read_environment(environ), texts.read_command_line(options)]
    readings = [_read_profile(_merge(stronger)), *stronger]
    merged = _merge(readings)
    outcome = _validate(merged)
    problems = [problem for reading in readings for problem in reading.problems]
    if isinstance(outcome, Settings) and not problems:
        used = profiles.read(outcome.profile) if outcome.profile else None
        return ResolvedSettings(outcome, _origins(merged), places, tuple(extra_arguments), used)
    raise refusal([*problems, *(() if isinstance(outcome, Settings) else outcome)])


def _merge(readings: Iterable[Reading]) -> Mapping[KeyPath, Given]:
    """Return what the strongest reading says of each setting; the last is the strongest."""
    return {given.path: given for reading in readings for given in reading.given}


def _read_profile(stronger: Mapping[KeyPath, Given]) -> Reading:
    """Read the packaged profile that a layer above it names, if one does."""
    named = stronger.get(_PROFILE)
    if named is None or not isinstance(named.value, str) or not named.value:
        # What is no name at all is a wrong type, which validation reports.
        return Reading()
    try:
        profile = profiles.read(named.value)
    except SuperviseError as error:
        return Reading(problems=(Problem(named.origin.source, error.message, error.remedy),))
    origin = Origin(Layer.PROFILE, f"profile {profile.name}")
    return read_tree(profile.values, lambda _: origin)


def _validate(merged: Mapping[KeyPath, Given]) -> Settings | tuple[Problem, ...]:
    """Return the settings, or a problem for each value that its setting cannot take.

    Pydantic's own messages show the value, which may be a secret, and report each member of a union by itself: only
    the places are taken from it.
    """
    try:
        return Settings.model_validate(_tree(merged))
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
    wrong = (_setting_at(merged, detail["loc"]) for detail in details)
    once = {given.path: given for given in wrong}
    return tuple(wrong_type(given.path, given.value, given.origin) for given in once.values())


def _setting_at(merged: Mapping[KeyPath, Given], place: tuple[int | str, ...]) -> Given:
    """Return the value that a place of pydantic's lies in; it goes on into members of unions and lists."""
    keys = tuple(str(key) for key in place)
    return next(merged[keys[:length]] for length in range(1, len(keys) + 1) if keys[:length] in merged)


def _tree(merged: Mapping[KeyPath, Given]) -> dict[str, object]:
    root: dict[str, object] = {}
    for path, given in merged.items():
        table = root
        for key in path[:-1]:
            inner = table.setdefault(key, {})
            assert isinstance(inner, dict)  # a reading holds either a table's keys or its value, never both
            table = inner
        table[path[-1]] = given.value
    return root


def _origins(merged: Mapping[KeyPath, Given]) -> Mapping[str, Origin]:
    defaults = {
        dotted(path): DEFAULT for path, field in catalogue.fields().items() if not catalogue.is_open_table(field)
    }
    return MappingProxyType(defaults | {dotted(path): given.origin for path, given in merged.items()})
