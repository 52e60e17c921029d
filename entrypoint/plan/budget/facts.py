"""What a budget is made from: the model's shape and the node's memory, read before, and the settings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from entrypoint.plan.budget.budget import Budget, Wishes, budget_of
from entrypoint.plan.budget.memory import (
    APU_OVERHEAD,
    CPU_HEADROOM_BYTES,
    CPU_OVERHEAD,
    HEADROOM_BYTES,
    MI300A_AVAILABLE_BYTES,
    NodeBudget,
)
from entrypoint.plan.budget.shape import ModelShape
from entrypoint.settings.schema import WorkloadSettings

COUNTS = (1, 2, 4, 8)
"""Numbers of nodes that a plan is shown for."""


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What is known before a budget is made.

    Attributes:
        shape: The model's shape; None where nothing is known of it.
        shape_source: Where that is from, in one clause.
        available_bytes: Memory available on a node before the load.
        available_source: Where that is from, in one clause.
    """

    shape: ModelShape | None = None
    shape_source: str = "nothing is known of the model"
    available_bytes: int = MI300A_AVAILABLE_BYTES
    available_source: str = "an idle node of four MI300A, as assumed"


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The budgets of a model for several numbers of nodes.

    Attributes:
        facts: What they are made from.
        on_cpu: The engine computes on the processor.
        nodes: The number of nodes at hand.
        budgets: The budgets, by number of nodes; empty where nothing is known of the model.
    """

    facts: MemoryFacts
    on_cpu: bool
    nodes: int
    budgets: Mapping[int, Budget]

    @property
    def here(self) -> Budget | None:
        """The budget for the nodes at hand."""
        return self.budgets.get(self.nodes)

    @property
    def fewest_nodes(self) -> int | None:
        """The fewest nodes on which the model is well served; None where nothing is known, or none of them do."""
        return next((nodes for nodes, each in sorted(self.budgets.items()) if each.fit.value == "possible"), None)


def wishes_of(meaning: Mapping[str, tuple[str, ...]], workload: WorkloadSettings, derate: float) -> Wishes:
    """Return what the engine's arguments and the workload say about memory.

    Args:
        meaning: What the arguments set, by destination.
        workload: The ``[workload]`` table.
        derate: What the engine multiplies the fraction by.
    """
    return Wishes(
        fraction=_number(meaning, "mem_fraction_static"),
        derate=derate,
        devices=int(_number(meaning, "tp_size") or 1),
        kv_dtype=_kv_dtype(meaning),
        most_tokens=int(limit) if (limit := _number(meaning, "max_total_tokens")) else None,
        state_share=_number(meaning, "mamba_full_memory_ratio") or Wishes().state_share,
        conversations=workload.conversations,
        prompt_tokens=workload.largest_prompt_tokens,
    )


def memory_plan(facts: MemoryFacts, wishes: Wishes, *, nodes: int, on_cpu: bool) -> MemoryPlan:
    """Return the budgets of a model for the nodes at hand and for the usual numbers of them."""

    def node_of(weights_bytes: int, ranks: int) -> NodeBudget:
        overhead, headroom_bytes = (CPU_OVERHEAD, CPU_HEADROOM_BYTES) if on_cpu else (APU_OVERHEAD, HEADROOM_BYTES)
        return NodeBudget(facts.available_bytes, weights_bytes, overhead, headroom_bytes, ranks)

    shape = facts.shape
    counts = sorted({*COUNTS, nodes}) if shape is not None else ()
    found = {count: budget_of(shape, count, node_of, wishes) for count in counts if shape is not None}
    return MemoryPlan(facts, on_cpu, nodes, {count: each for count, each in found.items() if each is not None})


def _kv_dtype(meaning: Mapping[str, tuple[str, ...]]) -> str:
    """Return the type of the KV cache: its own flag's, else that of the model's type where a flag changes it."""
    given = ((meaning.get(name) or ("auto",))[0] for name in ("kv_cache_dtype", "dtype"))
    return next((dtype for dtype in given if dtype != "auto"), "auto")


def _number(meaning: Mapping[str, tuple[str, ...]], name: str) -> float | None:
    try:
        number = float((meaning.get(name) or ("",))[0])
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None
