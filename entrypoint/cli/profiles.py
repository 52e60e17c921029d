"""``supervise profiles``: what is packaged, with the reason beside each value."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from entrypoint.cli.parse import Call
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings import profiles
from entrypoint.settings.profiles import Profile


def perform(call: Call) -> int:
    """List the profiles, or show one; return 0."""
    if call.options.action == "show":
        if call.options.name is None:
            raise SuperviseError(
                "supervise profiles show wants a name.",
                remedy=f"Packaged are: {', '.join(profiles.names())}.",
                code=ExitCode.USAGE,
            )
        return _show(profiles.read(call.options.name), call)
    found = [profiles.read(name) for name in profiles.names()]
    if call.options.format == "json":
        sys.stdout.write(json.dumps([{"name": profile.name, "title": profile.title} for profile in found]) + "\n")
    else:
        sys.stdout.writelines(f"{profile.name:<12} {profile.title}\n" for profile in found)
    return 0


def _show(profile: Profile, call: Call) -> int:
    if call.options.format == "json":
        sys.stdout.write(json.dumps(asdict(profile), indent=2, default=str) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(profile)) + "\n")
    return 0


def _lines(profile: Profile) -> Iterator[str]:
    yield f"{profile.name}: {profile.title}"
    for name, text in profile.about.items():
        if name != "title":
            yield f"{name}: {text}"
    yield f"nodes: {profile.nodes}"
    yield ""
    for name, value in _leaves(profile.values):
        yield f"{name} = {json.dumps(value)}"
        yield f"    {profile.reasons.get(name, '')}"
    if profile.seen:
        yield ""
        yield "memory fractions seen:"
    for seen in profile.seen:
        nodes = "1 node" if seen.nodes == 1 else f"{seen.nodes} nodes"
        unproven = "" if seen.kind == "measured" else " (a comment, no measurement)"
        yield f"    {seen.mem_fraction_static:<6} {nodes}: {seen.what}{unproven}"


def _leaves(tree: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield every setting with its dotted name."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
