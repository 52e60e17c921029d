"""Variables in an EDF: ``${VAR}`` is the host's, ``${VAR:-}`` may be missing, ``$${VAR}`` is no variable at all."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_REFERENCE = re.compile(
    r"(?P<literal>\$\$)(?P<rest>\{[^}]*\})?|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<text>[^}]*))?\}"
    r"|(?P<bad>\$\{[^}]*\}?)"
)


@dataclass(frozen=True, slots=True)
class Expansion:
    """A text with its variables put in.

    Attributes:
        text: The text; what could not be put in stands as it was.
        undefined: Variables that nobody defines.
        malformed: References that are none.
        defaults: Variables with a default that is not empty, which is not documented.
    """

    text: str
    undefined: tuple[str, ...] = ()
    malformed: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()


def expand(text: str, environ: Mapping[str, str]) -> Expansion:
    """Put a host's variables into a text."""
    undefined: list[str] = []
    malformed: list[str] = []
    defaults: list[str] = []

    def replacement(found: re.Match[str]) -> str:
        if found["literal"]:
            return f"${found['rest'] or '$'}"
        if found["bad"]:
            malformed.append(found["bad"])
            return found["bad"]
        name = found["name"]
        if found["text"]:
            defaults.append(name)
        if name in environ:
            return environ[name]
        if found["default"]:
            return found["text"]
        undefined.append(name)
        return found.group()

    expanded = _REFERENCE.sub(replacement, text)
    return Expansion(expanded, tuple(undefined), tuple(malformed), tuple(defaults))
