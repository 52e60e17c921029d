"""Memory as the engine counts it: what is free before the load, what the load takes, and what is left for the pool.

SGLang sizes the pool of each rank as *available after the load* minus *available before* times (1 - fraction). On an
APU both are the node's, for all its ranks together (0.5.23, kv_cache_configurator.py). So with P available before, W
the weights of the node's stage and O all that is not weights, each rank gets ``P * f - W - O``.
"""

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a loaded engine holds beside its weights, on a whole node: runtimes, buffers, the host's processes.

    Attributes:
        bytes: What is counted with.
        least_bytes: The least that explains what was seen.
        most_bytes: The most.
    """

    bytes: int
    least_bytes: int
    most_bytes: int


APU_OVERHEAD = Overhead(32 * GIB, 20 * GIB, 37 * GIB)
"""The floors seen for Kimi K2.7 (0.415) and GLM-5.3 (0.4838) want 31 to 32 GiB, the pools of Qwen3.8 about 20."""
CPU_OVERHEAD = Overhead(GIB * 3 // 100, 0, GIB // 4)
"""Measured with the tiny model on SGLang's CPU engine, 0.5.23: 0.03 GiB."""
MI300A_AVAILABLE_BYTES = 490 * GIB
"""What is counted with where no node is at hand: of 513.5 GiB, what an idle node's system leaves (an assumption with
which the floors that were seen agree)."""
HEADROOM_BYTES = 40 * GIB
"""What has to stay free while serving: graphs, activations, clients. With it the ceiling of GLM-5.3 lies between the
fraction that served (0.57) and the one that the kernel ended (0.62)."""
CPU_HEADROOM_BYTES = GIB


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """The memory of one node and what of it is spoken for.

    Attributes:
        available_bytes: What is available before the load.
        weights_bytes: What this node loads.
        overhead: What a loaded engine holds beside that.
        headroom_bytes: What has to stay free.
        ranks: Ranks on the node, each with a pool of its own.
    """

    available_bytes: int
    weights_bytes: int
    overhead: Overhead
    headroom_bytes: int
    ranks: int

    @property
    def floor(self) -> float:
        """The effective fraction at which nothing is left for the pool."""
        return (self.weights_bytes + self.overhead.bytes) / self.available_bytes

    @property
    def ceiling(self) -> float:
        """The effective fraction at which the pools of all ranks take all but the headroom."""
        return self.floor + self.left_bytes / (self.ranks * self.available_bytes)

    @property
    def left_bytes(self) -> int:
        """What is left for all pools of the node together; negative where the load alone is too much."""
        return self.available_bytes - self.weights_bytes - self.overhead.bytes - self.headroom_bytes

    def pool_bytes(self, effective: float, *, overhead_bytes: int | None = None) -> int:
        """Return the bytes of one rank's pool at an effective fraction; 0 below the floor.

        Args:
            effective: The fraction, after any derate.
            overhead_bytes: Another overhead than the one that is counted with.
        """
        held = self.weights_bytes + (self.overhead.bytes if overhead_bytes is None else overhead_bytes)
        return max(0, int(self.available_bytes * effective) - held)
