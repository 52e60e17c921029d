"""An EDF's document: which keys there are, of which types, and how one is laid over another."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from entrypoint.findings import Finding, Severity
from entrypoint.settings.words import kind

Value = TypeVar("Value")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Edf:
    """What an EDF says, as far as it is well-formed. None is what it does not say.

    Attributes:
        image: The image, or the path of a squashed one.
        workdir: The working directory.
        entrypoint: Whether the image's entry point is run.
        writable: Whether the container can be written to.
        mounts: Bind mounts.
        env: Variables; an empty one is unset.
        annotations: Annotations by dotted name.
    """

    image: str | None = None
    workdir: str | None = None
    entrypoint: bool | None = None
    writable: bool | None = None
    mounts: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def over(self, base: "Edf") -> "Edf":
        """Return this EDF laid over the one that it inherits from."""
        return Edf(
            image=base.image if self.image is None else self.image,
            workdir=base.workdir if self.workdir is None else self.workdir,
            entrypoint=base.entrypoint if self.entrypoint is None else self.entrypoint,
            writable=base.writable if self.writable is None else self.writable,
            mounts=(*base.mounts, *self.mounts),
            env={**base.env, **self.env},
            annotations={**base.annotations, **self.annotations},
        )


@dataclass(frozen=True, slots=True)
class Read:
    """A document, read.

    Attributes:
        edf: What it says.
        bases: What it inherits from, weakest first.
        findings: What is wrong with it.
    """

    edf: Edf
    bases: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


_TEXTS = ("image", "workdir")
_SWITCHES = ("entrypoint", "writable")
KEYS = ("base_environment", *_TEXTS, *_SWITCHES, "mounts", "env", "annotations", "devices")


def read_document(document: Mapping[str, Any]) -> Read:
    """Read a document's keys, each of its type; what is not is found and left out."""
    findings = [*_unknown(document), *_devices(document)]
    findings += [
        _wrong_type(key, words, document[key])
        for kind_of, words, keys in ((str, "text", _TEXTS), (bool, "true or false", _SWITCHES))
        for key in keys
        if key in document and not isinstance(document[key], kind_of)
    ]
    bases, wrong = _texts(document, "base_environment")
    mounts, wrong_mounts = _texts(document, "mounts")
    env, wrong_env = _environment(document.get("env", {}))
    annotations, wrong_annotations = _annotations(document.get("annotations", {}))
    return Read(
        Edf(
            image=_if_of(str, document.get("image")),
            workdir=_if_of(str, document.get("workdir")),
            entrypoint=_if_of(bool, document.get("entrypoint")),
            writable=_if_of(bool, document.get("writable")),
            mounts=mounts,
            env=env,
            annotations=annotations,
        ),
        bases,
        (*findings, *wrong, *wrong_mounts, *wrong_env, *wrong_annotations),
    )


def _if_of(wanted: type[Value], value: Any) -> Value | None:
    """Return a value that is of the type that it should be."""
    return value if isinstance(value, wanted) else None


def _unknown(document: Mapping[str, Any]) -> Iterator[Finding]:
    for key in document:
        if key not in KEYS:
            similar = get_close_matches(key, KEYS, n=1)
            hint = f"Did you mean {similar[0]}?" if similar else f"The keys are {', '.join(KEYS)}."
            yield Finding("edf-unknown-key", Severity.ERROR, f"There is no key {key!r} in an EDF.", hint)


def _devices(document: Mapping[str, Any]) -> Iterator[Finding]:
    if "devices" in document:
        yield Finding(
            "edf-devices",
            Severity.WARNING,
            "devices is read by Sarus Suite and Podman, and not by the Container Engine.",
            "Leave it out: /dev is the host's.",
        )


def _texts(document: Mapping[str, Any], key: str) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Return a list of texts; where the format allows it, one text is a list of one."""
    value = document.get(key, [])
    if isinstance(value, str) and key == "base_environment":
        return (value,), ()
    if not isinstance(value, list):
        return (), (_wrong_type(key, "a list of text", value),)
    wrong = tuple(_wrong_type(key, "a list of text", item) for item in value if not isinstance(item, str))
    return tuple(item for item in value if isinstance(item, str)), wrong


def _environment(table: Any) -> tuple[dict[str, str], tuple[Finding, ...]]:
    if not isinstance(table, Mapping):
        return {}, (_wrong_type("env", "a table", table),)
    findings = [
        Finding(
            "edf-env-not-text",
            Severity.ERROR,
            f"env.{name} is {kind(value)}; a variable's value is text.",
            "Write it between quotation marks.",
        )
        for name, value in table.items()
        if not isinstance(value, str)
    ]
    findings += [
        Finding(
            "edf-env-name", Severity.ERROR, f"env: {name!r} is no name of a variable.", "Use letters, digits and _."
        )
        for name in table
        if not _VARIABLE.fullmatch(name)
    ]
    return {name: value for name, value in table.items() if isinstance(value, str)}, tuple(findings)


def _annotations(table: Any) -> tuple[dict[str, str], tuple[Finding, ...]]:
    if not isinstance(table, Mapping):
        return {}, (_wrong_type("annotations", "a table", table),)
    flat = dict(flattened(table))
    findings = tuple(
        Finding(
            "edf-annotation-not-text",
            Severity.ERROR,
            f"annotations: {name} is {kind(value)}; the hooks compare it with text.",
            f'Write {name} = "{str(value).lower()}", with quotation marks.',
        )
        for name, value in flat.items()
        if not isinstance(value, str)
    )
    return {name: value for name, value in flat.items() if isinstance(value, str)}, findings


def flattened(table: Mapping[str, Any], above: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested tables by their dotted names: TOML reads ``a.b = 1`` as a table in a table."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flattened(value, (*above, key))
        else:
            yield ".".join((*above, key)), value


def _wrong_type(key: str, wanted: str, value: Any) -> Finding:
    return Finding(
        "edf-wrong-type", Severity.ERROR, f"{key} should be {wanted}, and is {kind(value)}.", f"Give it as {wanted}."
    )
