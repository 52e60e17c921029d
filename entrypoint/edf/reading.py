"""Reading an EDF from its file, with everything that it inherits."""

from collections.abc import Sequence
from pathlib import Path

import tomli

from entrypoint.edf.document import Edf, Read, read_document
from entrypoint.edf.surroundings import SEARCH_VARIABLE, Surroundings
from entrypoint.findings import Finding, Severity

LEVELS = 10
"""How deep the Container Engine follows ``base_environment``."""


def read_edf(path: Path, surroundings: Surroundings) -> Read:
    """Read an EDF and lay it over what it inherits; what is wrong anywhere in the chain is found."""
    return _read(path, surroundings, ())


def _read(path: Path, surroundings: Surroundings, above: Sequence[Path]) -> Read:
    own = _own(path)
    if above:
        own = Read(own.edf, own.bases, tuple(_of_base(path, finding) for finding in own.findings))
    chain = (*above, path.resolve())
    edf, findings = Edf(), list(own.findings)
    for word in own.bases:
        base = _base(word, surroundings, chain)
        edf = base.edf.over(edf)
        findings += base.findings
    return Read(own.edf.over(edf), own.bases, tuple(findings))


def _base(word: str, surroundings: Surroundings, chain: Sequence[Path]) -> Read:
    path = surroundings.locate(word)
    if path is None:
        searched = ", ".join(map(str, surroundings.search_path()))
        return _nothing(
            "edf-base-missing",
            f"base_environment: there is no EDF {word!r}.",
            f"A name is looked up in {SEARCH_VARIABLE} (here {searched}); a path begins with / or ./.",
        )
    if path.resolve() in chain:
        return _nothing(
            "edf-base-cycle",
            f"base_environment: {path} inherits from itself.",
            "Let one of the files stand on its own.",
        )
    if len(chain) > LEVELS:
        return _nothing(
            "edf-base-depth",
            f"base_environment: more than {LEVELS} levels of inheritance, at {path}.",
            "Join some of the files.",
        )
    return _read(path, surroundings, chain)


def _own(path: Path) -> Read:
    """Return what a file itself says."""
    try:
        return read_document(tomli.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        return _nothing("edf-unreadable", f"{path} cannot be read: {error.strerror}.", "Give the path of an EDF.")
    except ValueError as error:
        return _nothing("edf-syntax", f"{path} is no TOML: {error}.", "Correct it there.")


def _of_base(path: Path, finding: Finding) -> Finding:
    """Say in which inherited file something was found."""
    return Finding(
        finding.rule, finding.severity, f"In {path.name}, which it inherits: {finding.message}", finding.remedy
    )


def _nothing(rule: str, message: str, remedy: str) -> Read:
    return Read(Edf(), findings=(Finding(rule, Severity.ERROR, message, remedy),))
