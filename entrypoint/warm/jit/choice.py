"""Which steps a plan needs, and with how many hands they are built."""

import os
from dataclasses import dataclass

from entrypoint.node.meminfo import node_memory
from entrypoint.plan.plan import Plan
from entrypoint.warm.jit import learned
from entrypoint.warm.jit.step import Step, learned_steps, own_steps, packaged_steps

AITER = frozenset({"aiter", "amd-aiter"})
BUILDER_BYTES = 8 << 30
"""Memory that a builder is given: PyTorch, a GPU's context and a compiler at work."""
COMPILER_BYTES = 2 << 30
"""Memory that one of its compilers is given; a translation unit of composable kernels takes as much."""
SHARE = 0.5
"""Share of the available memory that all of it may take: nothing else runs yet, and page cache may as well stay."""


@dataclass(frozen=True, slots=True)
class Hands:
    """How many build at once.

    Attributes:
        workers: Builders.
        jobs: Compilers of each.
    """

    workers: int
    jobs: int


def steps_for(plan: Plan) -> tuple[Step, ...]:
    """Return what is to be built for a plan, each once.

    Raises:
        SuperviseError: The user's own file of steps cannot be used.
    """
    shape = plan.memory.facts.shape
    kinds = shape.kinds if shape else frozenset()
    on_gpu = bool(plan.node.architecture) and plan.meaning.get("device") != ("cpu",)
    has_aiter = bool(AITER & (plan.engine.stack.distributions or {}).keys())
    own = plan.settings.warm.steps
    wanted = (
        *(packaged_steps(kinds) if has_aiter and on_gpu else ()),
        *(own_steps(own, kinds) if own is not None else ()),
        *learned_steps(learned.read(plan.trees.shared) | learned.read(plan.trees.local)),
    )
    return tuple({(step.call, step.module): step for step in reversed(wanted)}.values())[::-1]


def hands_for(plan: Plan, steps: int) -> Hands:
    """Return how many build some steps at once, within this node's processors and memory."""
    memory = node_memory()
    available_bytes = memory.available_bytes if memory else plan.memory.facts.available_bytes
    return hands(
        steps,
        wished=plan.settings.warm.workers,
        gpus=_gpus(plan),
        cpus=len(os.sched_getaffinity(0)),
        available_bytes=available_bytes,
    )


def hands(steps: int, *, wished: int | None, gpus: int, cpus: int, available_bytes: int) -> Hands:
    """Return how many build at once.

    Args:
        steps: How much there is to build.
        wished: ``warm.workers``.
        gpus: GPUs of the node.
        cpus: Processors that this task may use.
        available_bytes: Memory that is available.
    """
    budget_bytes = int(SHARE * available_bytes)
    most = wished or min(gpus or max(1, cpus // 2), max(1, budget_bytes // BUILDER_BYTES))
    workers = max(1, min(most, steps))
    compilers = budget_bytes // workers // COMPILER_BYTES
    return Hands(workers, max(1, min(cpus // workers, compilers)))


def _gpus(plan: Plan) -> int:
    words = plan.meaning.get("tp_size", ())
    return int(words[0]) if plan.node.architecture and words and words[0].isdigit() else 0
