"""The prediction against the engine's own line, once it has started."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from entrypoint.plan.budget.facts import MemoryPlan
from entrypoint.plan.budget.memory import GIB

TOLERANCE = 0.03
"""Share by which a pool may differ from the predicted range: what the engine prints is rounded to 10 MiB."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A predicted pool beside the real one.

    Attributes:
        tokens: The engine's pool.
        predicted_tokens: The pool predicted for the memory that the engine printed before it loaded.
        least_tokens: With the most overhead that was seen, less the tolerance.
        most_tokens: With the least, and the tolerance more.
        available_bytes: What the engine printed as available before it loaded.
        predicted_available_bytes: What the plan counted with.
    """

    tokens: int
    predicted_tokens: int
    least_tokens: int
    most_tokens: int
    available_bytes: int
    predicted_available_bytes: int

    @property
    def difference(self) -> float:
        """By which share of the prediction the pool is larger; negative where it is smaller."""
        return self.tokens / self.predicted_tokens - 1 if self.predicted_tokens else 0.0

    @property
    def is_as_predicted(self) -> bool:
        """Whether the pool lies in the predicted range."""
        return self.least_tokens <= self.tokens <= self.most_tokens


def compare(plan: MemoryPlan, told: Mapping[str, Any]) -> Comparison | None:
    """Return the prediction beside what the engine told; None where one of the two is missing.

    Args:
        plan: The budgets.
        told: What the engine has told of itself, by name.
    """
    budget, tokens, available_gb = plan.here, told.get("pool_tokens"), told.get("available_before_load_gb")
    if budget is None or budget.wishes.effective is None or tokens is None or available_gb is None:
        return None
    available_bytes = int(available_gb * GIB)  # the engine writes GB and means 2**30 bytes (0.5.23)
    pool = replace(budget, node=replace(budget.node, available_bytes=available_bytes)).pool()
    return Comparison(
        tokens=int(tokens),
        predicted_tokens=pool.tokens,
        least_tokens=int(pool.least_tokens * (1 - TOLERANCE)),
        most_tokens=int(pool.most_tokens * (1 + TOLERANCE)),
        available_bytes=available_bytes,
        predicted_available_bytes=plan.facts.available_bytes,
    )
