"""Rules about the engine's flags: the engine itself says which it takes."""

from collections.abc import Iterator

from entrypoint.engine.flag_check import FlagProblemKind, check
from entrypoint.findings import Severity
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

UNCHECKED = "flags-unchecked"
"""The rule that there is no list of the engine's flags to check against."""


def _unchecked(plan: RuleInput) -> Iterator[Hit]:
    if plan.table is None:
        engine = f"SGLang {plan.engine_version}" if plan.engine_version else "this engine"
        yield Hit(f"The flags went unchecked: no list of the flags of {engine} is stored here.")


def _problems(plan: RuleInput) -> Iterator[Hit]:
    if plan.table is not None:
        for problem in check(plan.table, plan.argv):
            severity = _severity(problem.kind)
            yield Hit(
                problem.message, problem.remedy, plan.setting_of(problem.spelling), severity, f"flag-{problem.kind}"
            )


def _severity(kind: FlagProblemKind) -> Severity:
    if kind.refused:
        return Severity.ERROR
    return Severity.NOTE if kind is FlagProblemKind.IGNORED else Severity.WARNING


RULES = (
    Rule(
        UNCHECKED,
        Severity.NOTE,
        "whether the engine's own list of flags is known",
        "A flag that the engine refuses ends every rank within seconds, after the job has waited in the queue.",
        "argparse; SGLang 0.5.23 exits with 2",
        "A run, or supervise check where the engine is installed, asks the engine and stores the list.",
        _unchecked,
    ),
    Rule(
        "flag-…",
        Severity.ERROR,
        "each flag against the list that this engine printed",
        "A flag that is unknown, cut short to several meanings, or given a value that is no choice ends every rank; "
        "one that is deprecated or that a later one replaces works, and not as it reads.",
        "the engine at hand, asked for its flags",
        "Follow the message: it names the nearest flag, or the choices.",
        _problems,
    ),
)
