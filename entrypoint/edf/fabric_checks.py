"""Checks of the fabric: hooks and variables that several nodes need, and a single one must not have."""

import re
from collections.abc import Iterator
from pathlib import Path

from entrypoint.edf.document import Edf
from entrypoint.findings import Finding, Severity
from entrypoint.site.site import Site

PLUGIN_VARIANT = "com.hooks.aws_ofi_nccl.variant"
NETSTACK_VERSION = "com.hooks.netstack.version"
NETSTACK_NAME = "com.hooks.netstack.name"
_ENABLED = ".enabled"
_ROCM_OF_VARIANT = re.compile(r"rocm(\d+)")
_ROCM_OF_IMAGE = re.compile(r"rocm-?(?P<major>10|\d)")
"""``rocm724``, ``rocm7`` and ``rocm-7.2`` are ROCm 7; ``rocm10`` and ``rocm1000`` are 10."""
MISSPELT = {"NCCL_GDR_LEVEL": "NCCL_NET_GDR_LEVEL"}


def uses_fabric(edf: Edf, site: Site) -> bool:
    """Return whether an EDF turns any hook of the fabric on."""
    return any(edf.annotations.get(name) == "true" for name in _switches(site))


def fabric_findings(edf: Edf, nodes: int, site: Site) -> Iterator[Finding]:
    """Yield what is wrong with hooks and network variables for a server on so many nodes."""
    if nodes == 1:
        yield from _one_node(edf, site)
    else:
        yield from _hooks(edf, site)
        yield from _artifact(edf, site)
        yield from _variables(edf, site)
    yield from _variant(edf, site)
    for wrong, right in MISSPELT.items():
        if wrong in edf.env:
            yield Finding(
                "edf-misspelt-variable", Severity.ERROR, f"env: nothing reads {wrong}.", f"Its name is {right}."
            )


def _switches(site: Site) -> tuple[str, ...]:
    return tuple(name for name in site.fabric.annotations if name.endswith(_ENABLED))


def _one_node(edf: Edf, site: Site) -> Iterator[Finding]:
    for name in _switches(site):
        if edf.annotations.get(name) == "true":
            yield Finding(
                "edf-hook-on-one-node",
                Severity.ERROR,
                f"annotations: {name} on a single node: the plugin finds no network, and the engine ends at once.",
                "Leave the hooks of the fabric out, or use the EDF of several nodes.",
            )
    forbidden = [row.name for row in site.fabric.env if row.only_between_nodes]
    for name in forbidden:
        if edf.env.get(name):
            yield Finding(
                "edf-network-on-one-node",
                Severity.ERROR,
                f"env: {name} is forced on a single node: the plugin finds no network, and the engine ends at once.",
                f"Leave {name} out.",
            )


def _hooks(edf: Edf, site: Site) -> Iterator[Finding]:
    missing = {name: value for name, value in site.fabric.annotations.items() if name not in edf.annotations}
    if missing:
        lines = ", ".join(f'{name} = "{value}"' for name, value in missing.items())
        yield Finding(
            "edf-hook-missing",
            Severity.ERROR,
            f"annotations: {', '.join(missing)} missing; without the fabric's hooks, several nodes fall back to TCP.",
            f"Write {lines}.",
        )
    for name, wanted in site.fabric.annotations.items():
        value = edf.annotations.get(name, wanted)
        if value != wanted and name in {NETSTACK_VERSION, NETSTACK_NAME}:
            yield Finding(
                "edf-other-netstack",
                Severity.WARNING,
                f"annotations: {name} is {value!r}; {site.name} is known to work with {wanted!r}.",
                "Prove the fabric before relying on it.",
            )
        elif value != wanted:
            yield Finding(
                "edf-hook-value",
                Severity.ERROR,
                f"annotations: {name} is {value!r}, and has to be exactly {wanted!r} for several nodes.",
                f'Write {name} = "{wanted}".',
            )


def _artifact(edf: Edf, site: Site) -> Iterator[Finding]:
    """Look whether the artifact is there, where its directory can be seen from here."""
    version, name = edf.annotations.get(NETSTACK_VERSION), edf.annotations.get(NETSTACK_NAME)
    if site.fabric.netstack_root is None or not version or not name:
        return
    root = Path(site.fabric.netstack_root)
    if root.is_dir() and not (root / version / name).exists():
        yield Finding(
            "edf-netstack-missing",
            Severity.ERROR,
            f"annotations: there is no artifact {version}/{name} in {root}; the hooks would silently do nothing.",
            f"Choose one that is there: ls {root}.",
        )


def _variant(edf: Edf, site: Site) -> Iterator[Finding]:
    variant = edf.annotations.get(PLUGIN_VARIANT)
    if variant is None:
        return
    plugin = _ROCM_OF_VARIANT.fullmatch(variant)
    image = _ROCM_OF_IMAGE.search(edf.image or "")
    major = int(image["major"]) if image else site.container.image_rocm
    if plugin is None:
        yield Finding(
            "edf-plugin-variant",
            Severity.ERROR,
            f"annotations: {PLUGIN_VARIANT} is {variant!r}, a plugin of another kind of GPU.",
            "Leave it out, and choose the netstack's artifact.",
        )
    elif major is not None and int(plugin[1]) != major:
        yield Finding(
            "edf-plugin-variant",
            Severity.ERROR,
            f"annotations: {PLUGIN_VARIANT} is {variant!r} and the image is of ROCm {major}: the plugin asks for a "
            "library that is not there.",
            "Leave it out, and choose the netstack's artifact.",
        )


def _variables(edf: Edf, site: Site) -> Iterator[Finding]:
    for row in site.fabric.env:
        value = edf.env.get(row.name, row.value)
        if row.fixed and value != row.value:
            yield Finding(
                "edf-network-variable",
                Severity.ERROR,
                f"env: {row.name} is {value!r} and has to be {row.value!r}: {row.reason}.",
                f'Write {row.name} = "{row.value}".',
            )
