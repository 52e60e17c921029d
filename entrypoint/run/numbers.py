"""What the engine's log says about itself: its resolved choices, its memory, its progress."""

from dataclasses import dataclass, field
from typing import Any

from entrypoint.engine.log import FactKind, LogFact
from entrypoint.run.states import Happening

SIGNS = {
    FactKind.LOAD_BEGIN: Happening.LOAD_SEEN,
    FactKind.LOAD_PROGRESS: Happening.LOAD_SEEN,
    FactKind.CAPTURE_BEGIN: Happening.CAPTURE_SEEN,
    FactKind.CAPTURE_PROGRESS: Happening.CAPTURE_SEEN,
    FactKind.HTTP_UP: Happening.PORT_OPEN,
}
"""Log lines that show that a phase has begun."""

_TEXTS = {
    FactKind.SERVER_ARGUMENTS: (
        "attention_backend",
        "reasoning_parser",
        "tool_call_parser",
        "mem_fraction_static",
        "context_length",
    ),
    FactKind.BACKEND_DEFAULT: ("attention_backend",),
}


MOST_BUILDS = 500
"""Builds that are remembered by name: aiter has 124 modules, and template operators without end."""


@dataclass(slots=True)
class EngineNumbers:
    """Facts of one start of the engine, gathered from its log.

    Attributes:
        values: What ``/status`` shows.
        progress: The last progress in words, or None.
    """

    values: dict[str, Any] = field(default_factory=dict)
    progress: str | None = None

    def note(self, fact: LogFact) -> bool:
        """Take in a fact; return whether it is progress, something that was not known before."""
        before = (self.progress, len(self.values))
        for name in _TEXTS.get(fact.kind, ()):
            if fact.fields.get(name) not in {None, "None", ""}:
                self.values[name] = fact.fields[name]
        match fact.kind:
            case FactKind.LOAD_PROGRESS:
                self.progress = f"{fact.fields['done']} of {fact.fields['total']} shards loaded"
            case FactKind.CAPTURE_PROGRESS:
                self.progress = f"{fact.fields['percent']} % of the graphs captured"
            case FactKind.POOL_TOKENS:
                self.values["pool_tokens"] = int(fact.number("tokens"))
            case FactKind.LOAD_END:
                self.progress = "weights loaded"
            case FactKind.JIT_BUILD_BEGIN:
                self.progress = f"building {fact.fields['module']}"
                self._note_build(str(fact.fields["module"]))
            case FactKind.JIT_BUILD_END:
                self.progress = f"built {fact.fields['module']}"
            case _:
                pass
        self._note_memory(fact)
        return fact.kind in _ALWAYS_PROGRESS or before != (self.progress, len(self.values))

    def _note_build(self, module: str) -> None:
        built = self.values.setdefault("kernels_built", [])
        if module not in built and len(built) < MOST_BUILDS:
            built.append(module)

    def _note_memory(self, fact: LogFact) -> None:
        if "available_gb" not in fact.fields:
            return
        self.values["available_memory_gb"] = fact.number("available_gb")
        if fact.kind is FactKind.LOAD_BEGIN:
            self.values.setdefault("available_before_load_gb", fact.number("available_gb"))


_ALWAYS_PROGRESS = frozenset(
    {
        FactKind.INIT_BEGIN,
        FactKind.INIT_END,
        FactKind.LOAD_BEGIN,
        FactKind.LOAD_END,
        FactKind.KV_CACHE,
        FactKind.POOL_END,
        FactKind.CAPTURE_BEGIN,
        FactKind.CAPTURE_END,
        FactKind.HTTP_UP,
        FactKind.WARMUP_BEGUN,
        FactKind.FIRED_UP,
    }
)
