"""The book of rules: all rows, in the order in which they are judged."""

from entrypoint.findings import Finding
from entrypoint.plan.rules import (
    age,
    attention,
    budget,
    caches,
    flags,
    memory,
    network,
    parsers,
    server,
    slurm,
    topology,
)
from entrypoint.plan.rules.rule import Rule, RuleInput

RULES: tuple[Rule[RuleInput], ...] = (
    *server.RULES,
    *parsers.RULES,
    *memory.RULES,
    *budget.RULES,
    *attention.RULES,
    *topology.RULES,
    *network.RULES,
    *caches.RULES,
    *slurm.RULES,
    *flags.RULES,
    *age.RULES,
)


def judge(plan: RuleInput) -> tuple[Finding, ...]:
    """Return what all rules find, in their order."""
    return tuple(finding for rule in RULES for finding in rule.findings(plan))
