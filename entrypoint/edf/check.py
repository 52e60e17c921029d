"""Checking an EDF before any node is asked for: everything that is wrong with it, from its file to its hooks."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from entrypoint.edf.container_checks import container_findings
from entrypoint.edf.document import Edf
from entrypoint.edf.environment_checks import environment_findings
from entrypoint.edf.fabric_checks import fabric_findings, uses_fabric
from entrypoint.edf.reading import read_edf
from entrypoint.edf.surroundings import Surroundings
from entrypoint.edf.use import Use
from entrypoint.edf.variables import expand
from entrypoint.findings import Finding, Severity
from entrypoint.settings.texts import IMAGE_VARIABLE

SEVERAL = 2


def check(path: Path, use: Use, surroundings: Surroundings) -> tuple[Finding, ...]:
    """Return what is wrong with an EDF, in the order of its parts, each once."""
    read = read_edf(path, surroundings)
    if any(finding.rule in {"edf-unreadable", "edf-syntax"} for finding in read.findings):
        return read.findings
    expanded, undefined = _expanded(read.edf, use, surroundings.environ)
    # Without a word on it, an EDF with hooks is taken for several nodes, and one without for a single one.
    nodes = use.nodes or (SEVERAL if uses_fabric(expanded, use.site) else 1)
    found = (
        *read.findings,
        *undefined,
        *container_findings(expanded, use.site, surroundings),
        *environment_findings(expanded, use, surroundings),
        *fabric_findings(expanded, nodes, use.site),
    )
    return tuple(dict.fromkeys(found))


def _expanded(edf: Edf, use: Use, environ: Mapping[str, str]) -> tuple[Edf, tuple[Finding, ...]]:
    """Return an EDF with the host's variables put in, and what is wrong with its references."""
    findings: list[Finding] = []

    def put_in(where: str, text: str) -> str:
        expansion = expand(text, environ)
        findings.extend(_undefined(where, expansion.undefined, use))
        findings.extend(_malformed(where, expansion.malformed))
        findings.extend(_defaults(where, expansion.defaults))
        return expansion.text

    filled = replace(
        edf,
        image=None if edf.image is None else put_in("image", edf.image),
        workdir=None if edf.workdir is None else put_in("workdir", edf.workdir),
        mounts=tuple(put_in("mounts", mount) for mount in edf.mounts),
        env={name: put_in(f"env.{name}", value) for name, value in edf.env.items()},
    )
    findings += _in_annotations(edf)
    return filled, tuple(findings)


def _undefined(where: str, names: tuple[str, ...], use: Use) -> Iterator[Finding]:
    for name in names:
        if name == IMAGE_VARIABLE:
            yield Finding(
                "edf-image-unset",
                Severity.NOTE,
                f"{name} is not set here; without it, srun ends where it should start.",
                f"export {name} with the image, or the path of a squashed one, before the job is submitted.",
            )
        elif name not in use.site.container.variables:
            yield Finding(
                "edf-undefined-variable",
                Severity.ERROR,
                f"{where}: nobody defines ${{{name}}}.",
                f"Export {name}, write ${{{name}:-}} where it may be empty, or $${{{name}}} for the text itself.",
            )


def _malformed(where: str, references: tuple[str, ...]) -> Iterator[Finding]:
    for reference in references:
        yield Finding(
            "edf-malformed-variable",
            Severity.ERROR,
            f"{where}: {reference} is no reference to a variable.",
            "Write ${NAME} or ${NAME:-}, or $$ for a dollar sign before a brace.",
        )


def _defaults(where: str, names: tuple[str, ...]) -> Iterator[Finding]:
    for name in names:
        yield Finding(
            "edf-variable-default",
            Severity.WARNING,
            f"{where}: a default for ${{{name}}} that is not empty is nowhere documented.",
            f"Write ${{{name}:-}} or the value itself.",
        )


def _in_annotations(edf: Edf) -> Iterator[Finding]:
    for name, value in edf.annotations.items():
        if "${" in value.replace("$${", ""):
            yield Finding(
                "edf-variable-in-annotation",
                Severity.WARNING,
                f"annotations: {name} holds a variable; they are put in on few clusters only.",
                "Write the value itself.",
            )
