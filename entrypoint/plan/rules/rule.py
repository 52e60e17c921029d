"""A rule: one row that says what it looks at, why, what to do, and how it is found to be broken.

A rule looks at what the command *means*, so that no spelling slips through, and has an identifier that
``rules.ignore`` takes.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from entrypoint.engine.flags import FlagTable
from entrypoint.findings import Finding, Severity
from entrypoint.node.slurm import SlurmStep
from entrypoint.outcome import ExitCode
from entrypoint.plan.arguments import Argument, words
from entrypoint.plan.budget.facts import MemoryPlan
from entrypoint.settings.profiles import Profile
from entrypoint.settings.schema import Settings

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
PORT_DIGITS = 5
LARGEST_PORT = 65535


def is_port(text: str) -> bool:
    """Say whether a text is the number of a port."""
    return text.isascii() and text.isdigit() and len(text) <= PORT_DIGITS and 0 < int(text) <= LARGEST_PORT


@dataclass(frozen=True, slots=True)
class RuleInput:
    """What the rules look at.

    Attributes:
        settings: What the user wants.
        flags: The engine's flags with the settings they come from.
        extra: Words after ``--``.
        meaning: What the arguments set, by destination.
        table: The engine's own flags, where they are known.
        engine_version: The engine's version, where it is known.
        step: The Slurm step, where there is one.
        nodes: Nodes that one server spans.
        needs_key_file: The engine gets keys through a private configuration file.
        clients_need_key: Clients must send a key; one for administrative calls alone asks nothing of them.
        environ: The caller's environment.
        environment: The engine's environment as decided, by name; None for a variable that is removed.
        profile: The profile that the settings build on, where they do.
        memory: The memory budget for several numbers of nodes; None before it is made.
    """

    settings: Settings
    flags: tuple[Argument, ...]
    extra: tuple[str, ...]
    meaning: Mapping[str, tuple[str, ...]]
    table: FlagTable | None
    engine_version: str | None
    step: SlurmStep | None
    nodes: int
    needs_key_file: bool
    clients_need_key: bool
    environ: Mapping[str, str]
    environment: Mapping[str, str | None]
    profile: Profile | None
    memory: MemoryPlan | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """The engine's arguments without the program."""
        return words(self.flags, self.extra)

    @property
    def step_nodes(self) -> int:
        """Number of nodes of the step."""
        return self.step.nodes_in_step if self.step else 1

    @property
    def fewest_nodes(self) -> int | None:
        """The fewest nodes on which the model can be served; None where nobody knows."""
        if self.memory is not None and self.memory.fewest_nodes is not None:
            return self.memory.fewest_nodes
        return self.profile.nodes if self.profile else None

    @property
    def on_cpu(self) -> bool:
        """Whether the engine computes on the processor: what is said of APUs is not said of it."""
        return self.value("device") == "cpu"

    def value(self, destination: str) -> str:
        """Return the first word that a flag was given; empty where it was not."""
        return (self.meaning.get(destination) or ("",))[0]

    def number(self, destination: str) -> float | None:
        """Return what a flag was given as a number; None where it was not given, or is none."""
        try:
            number = float(self.value(destination))
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    def variable(self, name: str) -> str | None:
        """Return a variable as the engine will see it."""
        return self.environment[name] if name in self.environment else self.environ.get(name)

    def setting_of(self, flag: str) -> str | None:
        """Return the setting that a flag comes from; None for one given after ``--``."""
        return next((argument.setting for argument in self.flags if argument.flag == flag), None)


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that is broken.

    Attributes:
        message: What is the case, in one sentence with the values at hand.
        remedy: What to change here; by default what the rule says.
        setting: Dotted name of the setting concerned; by default the rule's.
        severity: How much it matters here; by default the rule's.
        rule: Its identifier, where a row stands for several.
    """

    message: str
    remedy: str = ""
    setting: str | None = None
    severity: Severity | None = None
    rule: str = ""


Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Rule(Generic[Seen]):
    """One row of the rules; what it looks at is of one type, such as a plan.

    Attributes:
        name: Stable identifier, in kebab case; ``rules.ignore`` silences it.
        severity: How much it matters.
        looks_at: What it looks at, as the object of a sentence.
        why: What happens otherwise, in one or two sentences.
        source: Where that is known from, and for which versions.
        remedy: What to change.
        find: Returns where it is broken; None for one whose check stands elsewhere.
        setting: Dotted name of the setting concerned, when it is always the same.
        code: Exit code of a run refused for it.
    """

    name: str
    severity: Severity
    looks_at: str
    why: str
    source: str
    remedy: str
    find: Callable[[Seen], Iterable[Hit]] | None = None
    setting: str | None = None
    code: ExitCode = ExitCode.CONFIGURATION

    def findings(self, seen: Seen) -> tuple[Finding, ...]:
        """Return what it finds."""
        return tuple(self.finding(hit) for hit in self.find(seen)) if self.find else ()

    def finding(self, hit: Hit) -> Finding:
        """Return what it says of one hit."""
        return Finding(
            hit.rule or self.name,
            hit.severity or self.severity,
            hit.message,
            hit.remedy or self.remedy,
            hit.setting or self.setting,
            self.code,
        )
