"""The board: everything that the health endpoints show, kept current by the run and read from memory."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Phase:
    """A state the run was or is in.

    Attributes:
        name: The state's name.
        began_at: Unix time when it began.
        lasted_s: How long it lasted; None while it goes on.
    """

    name: str
    began_at: float
    lasted_s: float | None = None


@dataclass(slots=True)
class Board:
    """What is known of a run right now.

    One writer, the run's loop; the endpoints read in the same loop. ``/readyz`` is rendered when it changes, so that
    answering it costs nothing.

    Attributes:
        about: What never changes: version, rank, model, addresses, command, directories.
        state: Name of the current state.
        ready: Whether clients should send requests.
        reasons: Why it is not ready, or not quite well.
        phases: The states so far, the current one last.
        generation: Which start of the engine runs, from 0.
        restarts: How often the engine was started again.
        engine: Numbers that the engine printed: pool, memory, attention backend, parsers.
        load: The last look at the engine's queues.
        memory: The last look at memory.
        warm: How caches and kernels were made ready, and what they take up.
        progress: Last progress of the current phase, in words.
        self_check: The last self-check with its transcript.
        findings: What checks found.
        log: Tells of the engine's log when somebody asks: where it is, lines lost.
        verdict: How it ended.
    """

    about: Mapping[str, Any] = field(default_factory=dict)
    state: str = "planned"
    ready: bool = False
    reasons: tuple[str, ...] = ("planned",)
    phases: list[Phase] = field(default_factory=list)
    generation: int = 0
    restarts: int = 0
    engine: dict[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] | None = None
    memory: Mapping[str, Any] | None = None
    warm: Mapping[str, Any] | None = None
    progress: str | None = None
    self_check: Mapping[str, Any] | None = None
    findings: tuple[Mapping[str, Any], ...] = ()
    log: Callable[[], Mapping[str, Any]] = dict
    verdict: Mapping[str, Any] | None = None
    readyz: bytes = b""

    def __post_init__(self) -> None:
        self.render()

    def enter(self, state: str, *, ready: bool, reasons: tuple[str, ...], now: float) -> Phase | None:
        """Note a new state; return the phase that it ends.

        Args:
            state: The new state's name.
            ready: Whether clients should send requests.
            reasons: Why not, or why not quite.
            now: Unix time.
        """
        ended = None
        if self.phases:
            last = self.phases[-1]
            ended = Phase(last.name, last.began_at, now - last.began_at)
            self.phases[-1] = ended
        self.phases = [*self.phases[-PHASES_KEPT:], Phase(state, now)]
        self.state, self.ready, self.reasons, self.progress = state, ready, reasons, None
        self.render()
        return ended

    def explain(self, reasons: tuple[str, ...]) -> None:
        """Give other reasons for the same state."""
        self.reasons = reasons
        self.render()

    def render(self) -> None:
        """Render the answer of ``/readyz``."""
        self.readyz = json.dumps({"ready": self.ready, "state": self.state, "reasons": list(self.reasons)}).encode()

    def status(self) -> dict[str, Any]:
        """Return the whole picture, as ``/status`` gives it."""
        return {
            **self.about,
            "state": self.state,
            "since_unix_s": self.phases[-1].began_at if self.phases else None,
            "ready": self.ready,
            "reasons": list(self.reasons),
            "progress": self.progress,
            "phases": [
                {"name": phase.name, "began_unix_s": phase.began_at, "lasted_s": phase.lasted_s}
                for phase in self.phases
            ],
            "generation": self.generation,
            "restarts": self.restarts,
            "engine": self.engine,
            "load": self.load,
            "memory": self.memory,
            "warm": self.warm,
            "self_check": self.self_check,
            "findings": list(self.findings),
            "log": dict(self.log()),
            "verdict": self.verdict,
        }


PHASES_KEPT = 199
"""Phases that ``/status`` remembers: a server that flaps for weeks must not fill memory."""
