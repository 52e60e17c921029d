"""Rules about kernels: what computes attention, and whether aiter's operators are in use."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.families import family_of
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

COLD_BUILD_S = 363
"""The longest build of one aiter module that was seen; 16 modules took 633 s together (sgl-project/sglang#34586)."""
BACKENDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")


def _without_aiter(plan: RuleInput) -> Iterator[Hit]:
    if plan.variable("SGLANG_USE_AITER") in {"0", "false"} and not plan.on_cpu:
        yield Hit("SGLANG_USE_AITER is 0: the page size falls to 1, whatever its flag says.")


def _own_choice_suppressed(plan: RuleInput) -> Iterator[Hit]:
    family = family_of(plan.value("model_path"))
    named = [f"--{name.replace('_', '-')} {plan.value(name)}" for name in BACKENDS if plan.value(name)]
    if family is not None and family.own_backend and named:
        yield Hit(f"{' and '.join(named)} takes {family.name}'s own choice away, which is {family.own_backend}.")


def _impatient_watchdog(plan: RuleInput) -> Iterator[Hit]:
    timeout_s = plan.number("watchdog_timeout")
    if timeout_s is not None and timeout_s < COLD_BUILD_S and not plan.on_cpu:
        yield Hit(
            f"The engine's watchdog ends it after {timeout_s:g} s, and one cold build of a kernel took {COLD_BUILD_S}."
        )


def _pinning(plan: RuleInput) -> Iterator[Hit]:
    if plan.variable("SGLANG_SET_CPU_AFFINITY") in {"1", "true"} and plan.step is not None:
        yield Hit("SGLANG_SET_CPU_AFFINITY is 1 in a Slurm step: the engine would pin itself to CPUs of others.")


RULES = (
    Rule(
        "aiter-off",
        Severity.WARNING,
        "SGLANG_USE_AITER in the engine's environment",
        "It switches aiter's operators, not the attention backend. Off, the preshuffled paged kernels are lost.",
        "the operators' notes for MI300A, August 2026; SGLang's cookbook turns it off for gpt-oss alone",
        "Leave it at 1, except where a model's recipe says otherwise.",
        _without_aiter,
        "engine.env.SGLANG_USE_AITER",
    ),
    Rule(
        "backend-named",
        Severity.ERROR,
        "an attention backend that is named for a model which picks its own",
        "An explicit backend suppresses the model's own override: sparse attention is then not used at all.",
        "SGLang 0.5.23, arg_groups/model_overrides/deepseek_v2.py",
        'Set engine.attention_backend = "", which omits the flag.',
        _own_choice_suppressed,
        "engine.attention_backend",
    ),
    Rule(
        "watchdog-short",
        Severity.WARNING,
        "the engine's watchdog against the longest cold build that was seen",
        "A kernel that is built within the first batch counts as a step: the watchdog ends the server before its first "
        "token, again and again.",
        "sgl-project/sglang#34586",
        "Set engine.watchdog_timeout_s to 1800.",
        _impatient_watchdog,
        "engine.watchdog_timeout_s",
    ),
    Rule(
        "cpu-affinity",
        Severity.ERROR,
        "SGLANG_SET_CPU_AFFINITY within a Slurm step",
        "SGLang's own pinning counts physical cores and knows nothing of the step's CPU set: the process dies of an "
        "error of psutil.",
        "the operators' notes for MI300A; sgl-project/sglang#39552",
        "Remove it from engine.env; Slurm binds the CPUs.",
        _pinning,
        "engine.env.SGLANG_SET_CPU_AFFINITY",
    ),
)
