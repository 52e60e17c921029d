"""The budget of one topology: floor and ceiling of the fraction, the pool, and what a workload makes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from entrypoint.plan.budget.memory import NodeBudget
from entrypoint.plan.budget.shape import ModelShape

AIM = 1.3
"""Pool over working set to aim for: the crossing is near 1.0, and the rest is margin (August 2026, Qwen3.8)."""
CROSSING = 1.0
NARROW_WINDOW = 0.05
"""Width of the window between floor and ceiling below which a topology is not recommended: a few GiB decide."""


class Fit(StrEnum):
    """Whether a model can be served on a number of nodes."""

    IMPOSSIBLE = "impossible"
    """The load alone takes what there is."""
    NOT_RECOMMENDED = "not recommended"
    """It could start, with hardly any room for the pool."""
    POSSIBLE = "possible"
    """There is room."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the settings say about memory.

    Attributes:
        fraction: ``mem_fraction_static`` as given; None where it is not.
        derate: What the engine multiplies it by.
        devices: Devices that share each layer: the ranks of a node.
        kv_dtype: Type of the KV cache, by name; "auto" is the model's own.
        most_tokens: ``--max-total-tokens``; None where it is not given.
        state_share: ``--mamba-full-memory-ratio``.
        conversations: Conversations of the workload; None where it is not said.
        prompt_tokens: Their largest prompt; None where it is not said.
    """

    fraction: float | None = None
    derate: float = 1.0
    devices: int = 4
    kv_dtype: str = "auto"
    most_tokens: int | None = None
    state_share: float = 0.9
    conversations: int | None = None
    prompt_tokens: int | None = None

    @property
    def effective(self) -> float | None:
        """The fraction as the engine uses it."""
        return None if self.fraction is None else self.fraction * self.derate

    @property
    def working_set_tokens(self) -> int | None:
        """The prompt tokens of all conversations at their largest; None where the workload is not said."""
        if self.conversations is None or self.prompt_tokens is None:
            return None
        return self.conversations * self.prompt_tokens


@dataclass(frozen=True, slots=True)
class Pool:
    """A predicted KV pool, in tokens.

    Attributes:
        tokens: What is expected.
        least_tokens: With the most overhead that was seen.
        most_tokens: With the least.
        slots: Requests whose states fit, with linear layers; None without.
    """

    tokens: int
    least_tokens: int
    most_tokens: int
    slots: int | None


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a model on a number of nodes.

    Attributes:
        nodes: The nodes of one server, each with one stage.
        node: The memory of the node with the heaviest stage.
        token_bytes: Bytes of a token in one rank's pool.
        slot_bytes: Bytes of a request's states on one rank; 0 without linear layers.
        wishes: What the settings say.
    """

    nodes: int
    node: NodeBudget
    token_bytes: int
    slot_bytes: int
    wishes: Wishes

    @property
    def fit(self) -> Fit:
        """Whether the model can be served like that."""
        if self.node.left_bytes <= 0:
            return Fit.IMPOSSIBLE
        return Fit.POSSIBLE if self.node.ceiling - self.node.floor >= NARROW_WINDOW else Fit.NOT_RECOMMENDED

    @property
    def floor(self) -> float:
        """The fraction to give, before the derate, at which nothing is left for the pool."""
        return self.node.floor / self.wishes.derate

    @property
    def ceiling(self) -> float:
        """The fraction to give, before the derate, above which the kernel may end the engine."""
        return self.node.ceiling / self.wishes.derate

    def pool(self, effective: float | None = None) -> Pool:
        """Return the pool that a fraction gives.

        Args:
            effective: The fraction after the derate; by default the settings', else the ceiling.
        """
        used = effective or self.wishes.effective or self.node.ceiling
        overhead = self.node.overhead
        tokens, least, most = (
            self._tokens(self.node.pool_bytes(used, overhead_bytes=held))
            for held in (overhead.bytes, overhead.most_bytes, overhead.least_bytes)
        )
        states = int(self.node.pool_bytes(used) * self._state_part)
        return Pool(tokens, least, most, states // self.slot_bytes if self.slot_bytes else None)

    @property
    def _state_part(self) -> float:
        """The part of a rank's pool that goes to linear layers' states."""
        share = self.wishes.state_share
        return share / (1 + share) if self.slot_bytes else 0.0

    def _tokens(self, pool_bytes: int) -> int:
        tokens = int(pool_bytes * (1 - self._state_part)) // self.token_bytes
        return tokens if self.wishes.most_tokens is None else min(tokens, self.wishes.most_tokens)

    @property
    def ratio(self) -> float | None:
        """Pool over working set; None where the workload is not said."""
        wanted = self.wishes.working_set_tokens
        return self.pool().tokens / wanted if wanted else None

    def fraction_for(self, ratio: float) -> float | None:
        """Return the fraction to give at which pool over working set reaches a ratio; None without a workload."""
        wanted = self.wishes.working_set_tokens
        if wanted is None:
            return None
        needed_bytes = wanted * ratio * self.token_bytes / (1 - self._state_part)
        return (self.node.floor + needed_bytes / self.node.available_bytes) / self.wishes.derate


NodeMaker = Callable[[int, int], NodeBudget]
"""Makes the memory of a node from the bytes of weights that it loads and the number of its ranks."""


def budget_of(shape: ModelShape, nodes: int, node_of: NodeMaker, wishes: Wishes) -> Budget | None:
    """Return the budget of a model on a number of nodes; None where its weights are not known.

    Args:
        shape: The model's shape.
        nodes: Nodes of one server, each with one stage of the pipeline.
        node_of: Makes the memory of a node from the weights that it loads.
        wishes: What the settings say.
    """
    weights_bytes = shape.heaviest_stage_bytes(nodes)
    if weights_bytes is None:
        return None
    return Budget(
        nodes=nodes,
        node=node_of(weights_bytes, wishes.devices),
        token_bytes=shape.token_bytes(stages=nodes, devices=wishes.devices, kv_dtype=wishes.kv_dtype),
        slot_bytes=shape.slot_bytes(stages=nodes, devices=wishes.devices),
        wishes=wishes,
    )
