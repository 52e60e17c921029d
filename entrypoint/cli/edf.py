"""``supervise edf``: environment definition files, written and checked."""

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from entrypoint.cli.findings import table
from entrypoint.cli.parse import Call
from entrypoint.edf.check import check
from entrypoint.edf.surroundings import Surroundings
from entrypoint.edf.use import Use
from entrypoint.findings import Finding, errors, without_ignored
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.plan.render import finding_data
from entrypoint.settings import profiles
from entrypoint.site.reading import read_site, site_here
from entrypoint.site.site import Site


@dataclass(frozen=True, slots=True)
class Checked:
    """An EDF that was checked.

    Attributes:
        file: How it was named.
        findings: What was found.
    """

    file: str
    findings: tuple[Finding, ...]


def perform(call: Call) -> int:
    """Write an EDF, or check some; return 0, or the code of the first error."""
    site = read_site(call.options.site) if call.options.site else site_here(os.environ)
    return _render(call, site) if call.options.action == "render" else _check(call, site)


def _render(call: Call, site: Site) -> int:
    if call.options.profile is None or call.options.files:
        raise SuperviseError(
            "supervise edf render wants a profile, and no files.",
            remedy=f"Give --profile with one of {', '.join(profiles.names())}.",
            code=ExitCode.USAGE,
        )
    from entrypoint.edf.render import render  # only here: the template library takes a while

    profile = profiles.read(call.options.profile)
    sys.stdout.write(render(profile, call.options.nodes or profile.nodes, site))
    return 0


def _check(call: Call, site: Site) -> int:
    if not call.options.files:
        raise SuperviseError(
            "supervise edf check wants the files of EDFs, or their names.",
            remedy="Give one, such as ~/.edf/kimi27-4nodes.toml.",
            code=ExitCode.USAGE,
        )
    profile = profiles.read(call.options.profile) if call.options.profile else None
    use = Use(call.options.nodes, site, profile.family if profile else None)
    surroundings = Surroundings(os.environ, Path.cwd(), Path.home())
    ignored = frozenset(call.options.ignore)
    checked = [
        Checked(word, without_ignored(check(_path(word, surroundings), use, surroundings), ignored))
        for word in call.options.files
    ]
    if call.options.format == "json":
        rows = [{"file": one.file, "findings": [finding_data(finding) for finding in one.findings]} for one in checked]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        _tell(checked)
    refusing = [error for one in checked for error in errors(one.findings)]
    return int(refusing[0].code) if refusing else 0


def _tell(checked: list[Checked]) -> None:
    files: dict[Finding, list[str]] = {}
    for one in checked:
        for finding in one.findings:
            files.setdefault(finding, []).append(one.file)
    named = [replace(finding, message=f"{', '.join(where)}: {finding.message}") for finding, where in files.items()]
    sys.stdout.write(table(named, sys.stdout))
    for one in checked:
        if not one.findings:
            sys.stdout.write(f"{one.file}: nothing to report\n")


def _path(word: str, surroundings: Surroundings) -> Path:
    """Return the file that is meant: a path as it is, else a name as srun looks it up."""
    path = Path(word)
    return path if path.is_file() else surroundings.locate(word) or path
