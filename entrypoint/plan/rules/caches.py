"""Rules about caches, as far as the plan alone tells; where they lie is looked at on the node."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput


def _unset(plan: RuleInput) -> Iterator[Hit]:
    for name in ("TRITON_CACHE_DIR", "AITER_JIT_DIR", "AITER_ROOT_DIR", "HF_HOME", "HOME"):
        if plan.settings.engine.env.get(name) == "":
            message = f"[engine.env] removes {name}, and with it a cache that outlives the job."
            yield Hit(message, setting=f"engine.env.{name}")


RULES = (
    Rule(
        "cache-unset",
        Severity.WARNING,
        "cache variables that [engine.env] removes",
        "Without TRITON_CACHE_DIR every job compiles every kernel again, while it serves: tokens come in bursts "
        "between stalls. aiter then builds below a home that the container keeps in memory or loses.",
        "the operators' notes for MI300A, August 2026",
        "Leave it out of engine.env, and set [caches] instead.",
        _unset,
    ),
)
