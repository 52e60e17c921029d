"""Rules about the memory budget: the fraction against what the model and the node leave room for."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.budget.budget import AIM, CROSSING, Budget, Fit
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

_FRACTION = "engine.mem_fraction_static"
_NOTES = "the operators' notes for MI300A, August 2026; docs/budget.md says how it is computed"


def _here(plan: RuleInput) -> Budget | None:
    return plan.memory.here if plan.memory else None


def _unknown(plan: RuleInput) -> Iterator[Hit]:
    if plan.memory is not None and not plan.memory.budgets and not plan.on_cpu and "model_path" in plan.meaning:
        yield Hit(f"There is no memory budget: {plan.memory.facts.shape_source}.")


def _below_floor(plan: RuleInput) -> Iterator[Hit]:
    budget = _here(plan)
    if budget is None or budget.wishes.effective is None or budget.wishes.effective > budget.node.floor:
        return
    fewest = plan.memory.fewest_nodes if plan.memory else None
    if budget.fit is Fit.POSSIBLE:
        remedy = (
            f"Take more nodes, which lowers the floor; on {_nodes(budget.nodes)} only {budget.floor:.3f} to "
            f"{budget.ceiling:.3f} can work."
        )
    else:
        remedy = f"Take more nodes{f': {fewest} do' if fewest else ''}; a larger fraction is no remedy."
    yield Hit(
        f"The fraction {budget.wishes.fraction:g} is below the floor of {budget.floor:.3f} on {_nodes(budget.nodes)}: "
        f"the load alone takes more, and nothing is left for the KV pool.",
        remedy,
    )


def _above_ceiling(plan: RuleInput) -> Iterator[Hit]:
    budget = _here(plan)
    if budget is None or budget.wishes.effective is None or budget.wishes.effective <= budget.node.ceiling:
        return
    if budget.wishes.most_tokens is not None and _capped_below_ceiling(budget):
        return
    yield Hit(
        f"The fraction {budget.wishes.fraction:g} is above the ceiling of {budget.ceiling:.3f} on "
        f"{_nodes(budget.nodes)}: the pools of {budget.node.ranks} ranks would leave less than the host needs."
    )


def _capped_below_ceiling(budget: Budget) -> bool:
    """Return whether --max-total-tokens keeps the pool as small as the ceiling would."""
    return budget.pool().tokens <= budget.pool(budget.node.ceiling).tokens


def _short_pool(plan: RuleInput) -> Iterator[Hit]:
    budget = _here(plan)
    if budget is None or budget.wishes.effective is None or budget.ratio is None or budget.ratio >= AIM:
        return
    wanted = budget.fraction_for(AIM) or 0.0
    tokens = budget.wishes.working_set_tokens or 0
    reachable = wanted <= budget.ceiling
    yield Hit(
        f"The predicted pool of {budget.pool().tokens:,} tokens is {budget.ratio:.2f} of the working set of {tokens:,}"
        f"{': the prefix cache would thrash' if budget.ratio < CROSSING else ', with little margin'}.",
        f"Give a fraction of {wanted:.3f}, or fewer conversations."
        if reachable
        else "Take more nodes, or fewer conversations: the fraction that it would need is above the ceiling.",
        severity=Severity.WARNING if budget.ratio < CROSSING else Severity.NOTE,
    )


def _needless_raise(plan: RuleInput) -> Iterator[Hit]:
    budget = _here(plan)
    engine = plan.profile.values.get("engine") if plan.profile else None
    usual = engine.get("mem_fraction_static") if isinstance(engine, dict) else None
    if budget is None or usual is None or budget.wishes.fraction is None or budget.wishes.fraction <= usual:
        return
    enough = budget.fraction_for(AIM)
    if enough is not None and enough <= usual:
        yield Hit(
            f"The profile's fraction of {usual:g} already gives {AIM:g} times the working set: "
            f"{budget.wishes.fraction:g} buys nothing."
        )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


RULES: tuple[Rule[RuleInput], ...] = (
    Rule(
        "budget-unknown",
        Severity.NOTE,
        "whether the model's shape is known",
        "Without the checkpoint's own files nobody can say before the load which fraction works.",
        "supervise itself",
        "Set model.path to a directory with the checkpoint, or take a profile.",
        _unknown,
        "model.path",
    ),
    Rule(
        "fraction-below-floor",
        Severity.ERROR,
        "the effective fraction against the floor that the weights set",
        "The fraction bounds weights and KV pool together, against memory measured before the load. Below the floor "
        "the engine refuses, after the load.",
        _NOTES,
        "Take more nodes: each stage then holds less. A larger fraction is no remedy where the window is closed.",
        _below_floor,
        _FRACTION,
    ),
    Rule(
        "fraction-above-ceiling",
        Severity.WARNING,
        "the effective fraction against what the host needs beside all ranks' pools",
        "Each rank of a node takes the same pool from the one memory that they share with the host. Above the ceiling "
        "the kernel ends the engine, without a traceback.",
        _NOTES,
        "Lower the fraction, or cap the pool with engine.args.max-total-tokens.",
        _above_ceiling,
        _FRACTION,
    ),
    Rule(
        "pool-short",
        Severity.WARNING,
        "the predicted pool against the working set of [workload]",
        "The prefix cache is a threshold on one ratio: above 1.0 hit rates of 0.984 were measured, at 0.90 one of "
        "0.60. Throughput fell from 271 tokens a second to 25.",
        _NOTES,
        "Raise the fraction within the ceiling, take fewer conversations, or more nodes.",
        _short_pool,
        "workload.conversations",
    ),
    Rule(
        "fraction-needless",
        Severity.NOTE,
        "a fraction that was raised above the profile's",
        "Above the threshold a larger pool buys nothing, and costs the host's margin.",
        _NOTES,
        "Leave the profile's fraction.",
        _needless_raise,
        _FRACTION,
    ),
)
