"""Rules about memory: on an APU the engine, its GPUs and the host share one pool."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.budget.budget import Fit
from entrypoint.plan.families import DERATE, DERATED_ABOVE_TOKENS, DERATED_BACKEND, expected_attention
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

DISCRETE_FRACTION = 0.75
"""From here on a fraction is one of a GPU with memory of its own: recipes for those say 0.8 to 0.9."""
HIERARCHICAL = ("--enable-hie", "--enable-hic", "--hicache")
"""How the flags of the hierarchical cache begin, also when they are cut short."""
HONOR = "SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION"
_TRUE = frozenset({"1", "true", "yes"})
_APU = "the operators' notes for MI300A, August 2026"
_FRACTION = "engine.mem_fraction_static"


def effective_fraction(plan: RuleInput) -> float | None:
    """Return the memory fraction as the engine will use it; None where none is given.

    Above 8192 tokens of context the engine multiplies it where its attention is aiter, named or chosen by itself
    (0.5.23). A context that is not given is the model's own, which is longer.
    """
    given = plan.number("mem_fraction_static")
    return None if given is None else given * (DERATE if is_derated(plan) else 1.0)


def is_derated(plan: RuleInput) -> bool:
    """Return whether the engine multiplies the memory fraction by 0.85."""
    context_tokens = plan.number("context_length")
    short = context_tokens is not None and context_tokens <= DERATED_ABOVE_TOKENS
    honored = (plan.variable(HONOR) or "").lower() in _TRUE
    return attention_of(plan) == DERATED_BACKEND and not short and not honored and not plan.on_cpu


def attention_of(plan: RuleInput) -> str:
    """Return the attention backend that is named, or that the engine will pick on ROCm by itself."""
    return expected_attention(plan.value("attention_backend"), plan.value("model_path")) or DERATED_BACKEND


def _hierarchical(plan: RuleInput) -> Iterator[Hit]:
    spelled = {word.partition("=")[0] for word in plan.argv}
    found = sorted(word for word in spelled if word.startswith(HIERARCHICAL))
    if found and not plan.on_cpu:
        yield Hit(f"{' and '.join(found)} would keep a second copy of the KV cache in the same memory.")


def _unset(plan: RuleInput) -> Iterator[Hit]:
    if plan.value("mem_fraction_static") or plan.on_cpu:
        return
    here = plan.memory.here if plan.memory else None
    known = here is not None and here.fit is Fit.POSSIBLE
    yield Hit(
        "No memory fraction is given: the engine would take 0.8 to 0.9 of the node's memory for each of its ranks, "
        "and the kernel would end it.",
        f"Set {_FRACTION}: from {here.floor:.3f} to {here.ceiling:.3f} can work here, as supervise plan shows."
        if here is not None and known
        else "",
    )


def _of_a_discrete_gpu(plan: RuleInput) -> Iterator[Hit]:
    given, used = plan.number("mem_fraction_static"), effective_fraction(plan)
    if given is not None and used is not None and used >= DISCRETE_FRACTION and not plan.on_cpu:
        yield Hit(
            f"A memory fraction of {given:g} is one for GPUs with memory of their own: here each rank would count it "
            f"against the whole node."
        )


def _derated(plan: RuleInput) -> Iterator[Hit]:
    given, used = plan.number("mem_fraction_static"), effective_fraction(plan)
    if given is not None and used is not None and used < given and not plan.on_cpu:
        how = "named" if plan.value("attention_backend") else "the engine's own choice"
        yield Hit(f"The fraction {given:g} will count as {used:.3g}: the attention backend is aiter ({how}).")


def _moved_alone(plan: RuleInput) -> Iterator[Hit]:
    if plan.profile is None:
        return
    engine = plan.profile.values.get("engine")
    wanted = engine if isinstance(engine, dict) else {}
    fraction, backend = wanted.get("mem_fraction_static"), wanted.get("attention_backend", "")
    if fraction is None or plan.on_cpu:
        return
    moved_fraction = plan.number("mem_fraction_static") != fraction
    moved_backend = plan.value("attention_backend") != backend
    if moved_fraction != moved_backend:
        moved, kept = ("fraction", "attention backend") if moved_fraction else ("attention backend", "fraction")
        seen = ", ".join(f"{row.mem_fraction_static:g}: {row.what}" for row in plan.profile.seen)
        yield Hit(
            f"The {moved} is not the profile's, and the {kept} is: in {plan.profile.name} they are one decision, "
            f"{fraction:g} with {backend or 'its own choice'}{f' ({seen})' if seen else ''}."
        )


RULES = (
    Rule(
        "hierarchical-cache",
        Severity.ERROR,
        "any flag of the hierarchical cache, in any spelling",
        "It mirrors the KV cache into the host's memory, which on an APU is the memory the cache lies in already: "
        "every token costs twice, and the kernel ends the server without a traceback.",
        _APU,
        "Remove it; give the pool itself more memory, or take more nodes.",
        _hierarchical,
    ),
    Rule(
        "fraction-unset",
        Severity.ERROR,
        "whether a memory fraction is given",
        "Without one SGLang computes a fraction for a GPU with memory of its own, and each rank counts it against the "
        "whole node's memory.",
        "SGLang 0.5.23, arg_groups/memory_hook.py",
        "Set engine.mem_fraction_static; supervise plan shows which values can work.",
        _unset,
        _FRACTION,
    ),
    Rule(
        "fraction-discrete",
        Severity.ERROR,
        "a memory fraction of 0.75 or more after the derate",
        "Recipes for discrete GPUs say 0.8 to 0.9. On an APU the fraction bounds weights and KV cache of each rank "
        "against the whole node, so that four ranks of 0.8 want more than there is.",
        _APU,
        "Take the profile's fraction, or one between floor and ceiling of supervise plan.",
        _of_a_discrete_gpu,
        _FRACTION,
    ),
    Rule(
        "fraction-derated",
        Severity.NOTE,
        "whether the engine multiplies the fraction by 0.85",
        "With aiter attention, named or chosen by the engine, and a context above 8192 tokens the fraction is derated. "
        "One flag value means two different pools.",
        "SGLang 0.5.23, arg_groups/attention_hook.py",
        f"Nothing, if the number was found with the derate; {HONOR}=1 turns it off for a number that was not.",
        _derated,
        _FRACTION,
    ),
    Rule(
        "fraction-and-backend",
        Severity.WARNING,
        "attention backend and memory fraction against the profile's pair",
        "The derate hangs on the backend: moving one of the two leaves a pool too small for any working set, or one "
        "that ends in the kernel's out-of-memory killer.",
        _APU,
        "Move both, or neither; read the pool that results from the engine's own line.",
        _moved_alone,
        _FRACTION,
    ),
)
