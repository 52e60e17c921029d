"""Endings: why a run is over, as it was decided, before the evidence is gathered."""

from dataclasses import dataclass, replace

from entrypoint.findings import Finding
from entrypoint.prove.transcript import CheckResult
from entrypoint.run.hang import Stillness
from entrypoint.run.memory_history import LowMemory
from entrypoint.run.states import State
from entrypoint.verdict.evidence import RankEnd


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Somebody asked for the end.

    Attributes:
        source: Who: a signal's name or a request.
        during: The state it found the run in.
    """

    source: str
    during: State


@dataclass(frozen=True, slots=True)
class Refused:
    """Preflight or warming found errors.

    Attributes:
        findings: The errors, the first one being the reason.
    """

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Stalled:
    """A phase passed its deadline and nothing progressed.

    Attributes:
        phase: The phase.
        lasted_s: How long it lasted.
        still_s: How long nothing had progressed.
        setting: Dotted name of the setting that bounds it.
        progress: The last progress seen, in words, when there was any.
        stacks: Where each process of the engine stood, one line each.
    """

    phase: State
    lasted_s: float
    still_s: float
    setting: str
    progress: str | None
    stacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hung:
    """The engine served, and then nothing moved any more while its processes lived.

    Attributes:
        phase: The state.
        still: How long nothing moved, and what was to do.
        stacks: Where each process of the engine stood, one line each.
    """

    phase: State
    still: Stillness
    stacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryLow:
    """Memory was about to run out, and the run ends before it does.

    Attributes:
        phase: The state.
        low: How much was left, and who held it.
    """

    phase: State
    low: LowMemory


@dataclass(frozen=True, slots=True)
class EngineDied:
    """The engine's main process ended by itself.

    Attributes:
        phase: The state it ended in.
        generation: Which start of the engine it was, from 0.
        end: What was known of its end when it ended.
    """

    phase: State
    generation: int
    end: RankEnd

    def seen_in(self, phase: State) -> "EngineDied":
        """Return it with the state in which the run takes notice: all that the engine had printed is applied then."""
        return replace(self, phase=phase, end=replace(self.end, phase=phase.value))


@dataclass(frozen=True, slots=True)
class PortTaken:
    """Another process took the engine's port after preflight had found it free: the engine can never listen on it.

    Attributes:
        phase: The state in which it answered.
        finding: What preflight would have said.
    """

    phase: State
    finding: Finding


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """The engine's command could not be executed.

    Attributes:
        reason: What the system said.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Disproved:
    """The self-check failed.

    Attributes:
        result: What it found.
    """

    result: CheckResult


@dataclass(frozen=True, slots=True)
class Faulted:
    """The supervisor itself failed.

    Attributes:
        traceback: Where, as lines.
    """

    traceback: tuple[str, ...]


Ending = Faulted | StopAsked | Refused | Stalled | Hung | MemoryLow | EngineDied | PortTaken | SpawnFailed | Disproved
