"""Model families: which parsers read what a model writes, and which attention the engine picks for it by itself.

Facts of SGLang 0.5.23, from its parsers, its model overrides and its cookbook.
"""

import re
from dataclasses import dataclass

DERATED_BACKEND = "aiter"
"""The attention backend for which the engine multiplies the memory fraction, and its choice for most models on ROCm."""
DERATE = 0.85
DERATED_ABOVE_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class Family:
    """One family of models.

    Attributes:
        name: What people call it.
        pattern: Finds it in a hub id or a path.
        reasoning_parsers: The parsers that read its thoughts.
        tool_parsers: The parsers that read its calls.
        own_backend: The attention that its own override picks where no backend is named; empty for the general rule.
    """

    name: str
    pattern: re.Pattern[str]
    reasoning_parsers: frozenset[str]
    tool_parsers: frozenset[str]
    own_backend: str = ""


def _family(name: str, pattern: str, reasoning: str, tools: str, own_backend: str = "") -> Family:
    found = re.compile(rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9.])", re.IGNORECASE)
    return Family(name, found, frozenset(reasoning.split()), frozenset(tools.split()), own_backend)


FAMILIES = (
    _family("Qwen3.5 and later", r"qwen[-_]?3\.[5-9]", "qwen3", "qwen3_coder"),
    _family("Qwen3 Coder", r"qwen[-_]?3[-_]coder", "qwen3 qwen3-thinking", "qwen3_coder"),
    _family("Qwen3", r"qwen[-_]?3", "qwen3 qwen3-thinking", "qwen qwen25 hermes qwen3_coder"),
    _family("Kimi K3", r"kimi[-_]k3", "kimi_k3", "kimi_k3"),
    _family("Kimi K2", r"kimi[-_]k2(?:\.\d+)?", "kimi_k2", "kimi_k2"),
    _family("GLM-5", r"glm[-_]5(?:\.\d+)?", "glm45", "glm47", own_backend="dsa"),
    _family("GLM-4.7", r"glm[-_]4\.7", "glm45", "glm47"),
    _family("GLM-4.5 and 4.6", r"glm[-_]4\.[56]", "glm45", "glm glm45"),
    _family("gpt-oss", r"gpt[-_]oss", "gpt-oss", "gpt-oss"),
    _family("Apertus", r"apertus", "apertus2509", "apertus2509"),
)
"""The first that fits counts: the narrower ones stand first."""


def family_of(model: str) -> Family | None:
    """Return the family that a model's hub id or path names; None where it names none.

    Args:
        model: Hub id or directory.
    """
    found = [(match.start(), family) for family in FAMILIES if (match := _last(family.pattern, model))]
    return max(found, key=lambda place: place[0])[1] if found else None


def expected_attention(named: str, model: str) -> str:
    """Return the attention backend that a plan counts on: the one named, or the model's own; empty where neither is.

    Args:
        named: What the flag says; empty where it is not given.
        model: Hub id or directory.
    """
    family = family_of(model)
    return named or (family.own_backend if family else "")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return where a pattern fits last: directories above a checkpoint may name other models."""
    return max(pattern.finditer(text), key=lambda match: match.start(), default=None)
