"""Checks of ``[env]``: what images preset wrongly, and where caches lie."""

from collections.abc import Iterator
from pathlib import Path

from entrypoint.edf.document import Edf
from entrypoint.edf.presets import presets_for
from entrypoint.edf.surroundings import Surroundings
from entrypoint.edf.use import Use
from entrypoint.findings import Finding, Severity
from entrypoint.plan.caches import CACHE_RULES, CacheLayer

AITER_DIRECTORY = "AITER_JIT_DIR"
LOCAL_VARIABLES = (
    "SUPERVISE_CACHES__LOCAL",
    *(rule.variable for rule in CACHE_RULES if rule.layer is CacheLayer.LOCAL and rule.variable != "XDG_CACHE_HOME"),
)
"""Caches that network file systems break.

XDG_CACHE_HOME is not among them: ours begin there, and the engine gets another.
"""


def environment_findings(edf: Edf, use: Use, surroundings: Surroundings) -> Iterator[Finding]:
    """Yield what is wrong with the variables."""
    yield from _presets(edf, use)
    yield from _empty_aiter(edf, surroundings)
    for name in LOCAL_VARIABLES:
        system = use.site.filesystem_of(edf.env.get(name, ""))
        if system is not None and system.kind == "nfs":
            yield Finding(
                "edf-cache-on-nfs",
                Severity.ERROR,
                f"env: {name} lies on {system.path}, a network file system that breaks this cache.",
                "Put it below /tmp, or leave it out.",
            )


def _presets(edf: Edf, use: Use) -> Iterator[Finding]:
    for row in presets_for(use.family):
        value = edf.env.get(row.name)
        if value is None or value == row.preset:
            says = f"{row.name}={row.preset}"
            yield Finding(
                "edf-image-preset",
                Severity.WARNING,
                f"env: {says} of the image is {'not reset' if value is None else 'confirmed'}: {row.reason}.",
                f'Write {row.name} = "{row.value}" in [env].',
            )


def _empty_aiter(edf: Edf, surroundings: Surroundings) -> Iterator[Finding]:
    value = edf.env.get(AITER_DIRECTORY)
    if not value or not value.startswith("/"):
        return
    directory = surroundings.cwd / Path(value)
    if not any(directory.glob("*.so")):
        yield Finding(
            "edf-aiter-directory",
            Severity.WARNING,
            f"env: {AITER_DIRECTORY} is {value}, where no module lies: the ones built into the image are hidden, and "
            "each is compiled again.",
            "Leave it out, or fill the directory from the image first.",
        )
