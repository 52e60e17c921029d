"""A memory budget in words: as data for programs, and as sentences."""

from collections.abc import Iterator
from typing import Any

from entrypoint.plan.budget.budget import AIM, Budget, Fit
from entrypoint.plan.budget.facts import MemoryPlan
from entrypoint.plan.budget.memory import GIB


def data(plan: MemoryPlan) -> dict[str, Any]:
    """Return everything of the budgets as JSON data."""
    return {
        "shape_source": plan.facts.shape_source,
        "available_bytes": plan.facts.available_bytes,
        "available_source": plan.facts.available_source,
        "nodes": plan.nodes,
        "fewest_nodes": plan.fewest_nodes,
        "budgets": [_budget_data(budget) for _, budget in sorted(plan.budgets.items())],
    }


def _budget_data(budget: Budget) -> dict[str, Any]:
    pool = budget.pool()
    return {
        "nodes": budget.nodes,
        "fit": budget.fit.value,
        "why": why(budget),
        "weights_bytes_of_heaviest_stage": budget.node.weights_bytes,
        "overhead_bytes": budget.node.overhead.bytes,
        "headroom_bytes": budget.node.headroom_bytes,
        "floor": round(budget.floor, 4),
        "ceiling": round(budget.ceiling, 4),
        "fraction": budget.wishes.fraction,
        "derate": budget.wishes.derate,
        "effective_fraction": budget.wishes.effective,
        "token_bytes_per_rank": budget.token_bytes,
        "pool_tokens": pool.tokens,
        "pool_tokens_least": pool.least_tokens,
        "pool_tokens_most": pool.most_tokens,
        "state_slots": pool.slots,
        "working_set_tokens": budget.wishes.working_set_tokens,
        "ratio": budget.ratio,
        "fraction_for_aim": budget.fraction_for(AIM),
        "max_total_tokens_for_aim": tokens_for_aim(budget),
    }


def tokens_for_aim(budget: Budget) -> int | None:
    """Return the --max-total-tokens that gives the margin to aim for; None without a workload."""
    wanted = budget.wishes.working_set_tokens
    return None if wanted is None else int(wanted * AIM)


def why(budget: Budget) -> str:
    """Return why a model fits a number of nodes, or does not, in one sentence."""
    node = budget.node
    weights, available = node.weights_bytes / GIB, node.available_bytes / GIB
    if node.weights_bytes >= node.available_bytes:
        return f"The weights alone take {weights:.0f} GiB of a node, and {available:.0f} are available: more nodes."
    if budget.fit is Fit.IMPOSSIBLE:
        return (
            f"Weights of {weights:.0f} GiB and what goes with them leave nothing of {available:.0f} GiB for a pool: "
            f"more nodes."
        )
    effective = budget.wishes.effective
    below = effective is not None and effective <= node.floor
    given = f" The fraction {budget.wishes.fraction:g} is below the floor." if below else ""
    if budget.fit is Fit.NOT_RECOMMENDED:
        return (
            f"The window from {budget.floor:.3f} to {budget.ceiling:.3f} leaves {node.left_bytes / GIB:.0f} GiB for "
            f"the pools of {node.ranks} ranks: hardly any headroom.{given} More nodes are the remedy."
        )
    return f"A fraction from {budget.floor:.3f} to {budget.ceiling:.3f} can work.{given}"


def sentences(plan: MemoryPlan) -> Iterator[str]:
    """Yield what else there is to say about the nodes at hand."""
    available = plan.facts.available_bytes / GIB
    yield f"Memory: {available:.0f} GiB of a node are available before the load ({plan.facts.available_source})."
    yield f"Model: {plan.facts.shape_source}"
    budget = plan.here
    if budget is None:
        return
    wishes = budget.wishes
    if wishes.fraction is not None and wishes.derate < 1:
        yield f"The fraction {wishes.fraction:g} counts as {wishes.effective:.3f}: aiter attention derates it."
    if plan.facts.shape is not None and plan.facts.shape.windowed:
        yield "Some layers see a window only: the pool will be larger than is said here."
    if budget.ratio is None:
        yield "How large the pool has to be depends on the load: set workload.conversations and largest_prompt_tokens."
        return
    enough = budget.fraction_for(AIM) or 0.0
    yield (
        f"Pool over working set is {budget.ratio:.2f}. A fraction of {enough:.3f}, or --max-total-tokens "
        f"{tokens_for_aim(budget)}, gives {AIM:g}; above that, raising it buys nothing."
    )
