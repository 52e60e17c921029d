"""What is checked once the engine has started: whether it chose what the plan counts on, by its own log."""

from collections.abc import Mapping
from typing import Any

from entrypoint.findings import Finding, Severity
from entrypoint.plan.budget.compare import compare
from entrypoint.plan.families import expected_attention
from entrypoint.plan.plan import Plan
from entrypoint.plan.rules.rule import Hit, Rule

BACKEND: Rule[None] = Rule(
    "backend-other",
    Severity.WARNING,
    "the attention backend that the engine names in its log, once it has started",
    "The engine may choose otherwise than it was told, without a word of complaint. Which backend it is decides on the "
    "derate of the memory fraction, and so on the size of the KV pool.",
    "the operators' notes for MI300A, August 2026",
    "Read attention_backend= in the engine's log, and the pool that resulted; then correct the settings or the image.",
    setting="engine.attention_backend",
)
POOL: Rule[None] = Rule(
    "pool-other",
    Severity.WARNING,
    "the engine's KV pool against the predicted one, for the memory that it printed before it loaded",
    "A pool of another size than planned means that weights, derate or overhead are not what they were taken for: the "
    "ratio to the working set is another one as well.",
    "docs/budget.md",
    "See max_total_num_tokens and the avail mem lines in the engine's log.",
    setting="engine.mem_fraction_static",
)
BUILT: Rule[None] = Rule(
    "built-anyway",
    Severity.WARNING,
    "builds in the engine's log, although its kernels were built ahead",
    "A build in the engine stands under its watchdog, and a cold one can outlive it. What was built is kept, and the "
    "modules with a name are built ahead from the next start on.",
    "sgl-project/sglang#34586; aiter's jit/core.py, August 2026",
    "Nothing, the first time; where it comes back, name the step with warm.steps.",
    setting="warm.steps",
)
RULES = (BACKEND, POOL, BUILT)
NAMED = 5
_ALIASES = {"nsa": "dsa"}
"""Older names of backends, which the engine still takes and prints (0.5.23)."""


def judge_started(plan: Plan, told: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Return what the engine did otherwise than planned.

    Args:
        plan: The plan.
        told: What the engine has told of itself, by name.
    """
    return (*_other_backend(plan, told), *_other_pool(plan, told))


def built_anyway(built: tuple[str, ...]) -> tuple[Finding, ...]:
    """Return that an engine whose kernels were built ahead has built some all the same.

    Args:
        built: What it built, by name.
    """
    if not built:
        return ()
    more = f" and {len(built) - NAMED} more" if len(built) > NAMED else ""
    return (BUILT.finding(Hit(f"The engine built {', '.join(built[:NAMED])}{more} after its start.")),)


def _other_pool(plan: Plan, told: Mapping[str, Any]) -> tuple[Finding, ...]:
    compared = compare(plan.memory, told)
    if compared is None or compared.is_as_predicted:
        return ()
    message = (
        f"The KV pool has {compared.tokens:,} tokens, and {compared.predicted_tokens:,} were predicted "
        f"({compared.difference:+.0%})."
    )
    return (POOL.finding(Hit(message)),)


def _other_backend(plan: Plan, told: Mapping[str, Any]) -> tuple[Finding, ...]:
    named = (plan.meaning.get("attention_backend") or ("",))[0]
    expected = expected_attention(named, (plan.meaning.get("model_path") or ("",))[0])
    chosen = str(told.get("attention_backend", ""))
    if not expected or not chosen or _ALIASES.get(chosen, chosen) == expected:
        return ()
    whose = "the command names" if named else "the model's own override would pick"
    return (BACKEND.finding(Hit(f"The engine chose {chosen} attention, and {whose} {expected}.")),)
