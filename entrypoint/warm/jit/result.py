"""What became of a step: believed only as far as there is a library, and no word of a failure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from entrypoint.engine.log import FactKind, LogFact, facts_in
from entrypoint.warm.jit.step import Step

KEPT_LINES = 40
KEPT_LINE_CHARACTERS = 400
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


class Outcome(StrEnum):
    """What became of a step."""

    BUILT = "built"
    """Something was compiled."""
    FOUND = "found"
    """Everything was there already."""
    ABSENT = "absent"
    """This installation has no such thing: nothing to build."""
    FAILED = "failed"
    """It could not be built."""
    TIMED_OUT = "timed-out"
    """It took longer than a step may take, and its builder was ended."""
    CRASHED = "crashed"
    """Its builder ended in the middle."""


GOOD = frozenset({Outcome.BUILT, Outcome.FOUND, Outcome.ABSENT})


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of one step.

    Attributes:
        step: The step.
        outcome: What became of it.
        seconds: How long it took.
        modules: What was compiled, by name.
        reason: Why it was not, in one clause; empty where it was.
        output: The last lines that its builder printed, where it failed.
    """

    step: Step
    outcome: Outcome
    seconds: float
    modules: tuple[str, ...] = ()
    reason: str = ""
    output: tuple[str, ...] = ()


def judge(
    step: Step,
    answer: Mapping[str, object],
    output: bytes,
    environment: Mapping[str, str],
    exists: Callable[[Path], bool],
) -> StepResult:
    """Return what became of a step whose builder has answered.

    ``finish build`` proves nothing: aiter prints it whether it has built or failed (jit/core.py, August 2026).

    Args:
        step: The step.
        answer: What the builder says.
        output: What was printed meanwhile.
        environment: The builder's, with the directories that it builds in.
        exists: Says whether a file is there.
    """
    facts = [fact for line in _COLOUR.sub(b"", output).splitlines() for fact in facts_in(line)]
    begun = _modules(facts, FactKind.JIT_BUILD_BEGIN)
    failed = _modules(facts, FactKind.JIT_BUILD_FAILED)
    missing = [module for module in begun if not _is_there(module, environment, exists)]
    if step.module and not _is_there(step.module, environment, exists):
        missing.append(step.module)
    raw_seconds = answer.get("seconds")
    seconds = float(raw_seconds) if isinstance(raw_seconds, int | float) else 0.0
    if answer.get("absent"):
        return StepResult(step, Outcome.ABSENT, seconds, reason=str(answer["absent"]))
    if answer.get("failed") or failed or missing:
        reason = _reason(failed, missing, answer.get("failed"))
        return StepResult(step, Outcome.FAILED, seconds, begun, reason, last_lines(output))
    return StepResult(step, Outcome.BUILT if begun else Outcome.FOUND, seconds, begun)


def _modules(facts: list[LogFact], kind: FactKind) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(fact.fields["module"]) for fact in facts if fact.kind is kind))


def _is_there(module: str, environment: Mapping[str, str], exists: Callable[[Path], bool]) -> bool:
    """Return whether a library is where its builder puts it; a template operator's is named by its directory."""
    if module.startswith("/"):
        return exists(Path(module, "lib.so"))
    directory = environment.get("AITER_JIT_DIR")
    return not directory or exists(Path(directory, f"{module}.so"))  # unset, aiter chooses: nothing to look at


def _reason(failed: tuple[str, ...], missing: list[str], raised: object) -> str:
    if failed:
        return f"the build of {', '.join(failed)} failed"
    if missing and not raised:
        return f"{', '.join(missing)} was said to be built, and its library is not there"
    return str(raised).partition("\n")[0][:KEPT_LINE_CHARACTERS]


def last_lines(output: bytes) -> tuple[str, ...]:
    """Return the last lines of an output that say something, without colours."""
    text = _COLOUR.sub(b"", output).decode("utf-8", "replace")
    lines = [line.rstrip()[:KEPT_LINE_CHARACTERS] for line in text.splitlines() if line.strip()]
    return tuple(lines[-KEPT_LINES:])
