"""The engine's environment: each variable with its value, the reason, and what became of a value that was there.

One rule decides per variable what an existing value means. *Default* rows give way to it. *Override* rows replace it,
because the serving images preset these wrongly for this machine and from inside an image nobody can tell a preset from
a wish; ``[engine.env]`` is where a wish is told, and it beats every row. *Refuse* rows end the run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from entrypoint.findings import Finding, Severity
from entrypoint.plan.caches import CacheDirectory


class Policy(StrEnum):
    """What an existing value of a variable means."""

    DEFAULT = "default"
    """It is kept."""
    OVERRIDE = "override"
    """It is replaced."""
    REFUSE = "refuse"
    """Another value than ours is an error."""
    UNSET = "unset"
    """The variable is removed."""


class Treatment(StrEnum):
    """What became of a variable."""

    SET = "set"
    KEPT = "kept"
    OVERRIDDEN = "overridden"
    UNSET = "unset"


@dataclass(frozen=True, slots=True)
class VariableRule:
    """One row: a variable, what it shall be, why, and what an existing value means."""

    name: str
    value: str
    policy: Policy
    reason: str


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of the engine's environment, decided.

    Attributes:
        name: Its name.
        value: Its value; None when it is removed.
        reason: Why, in one clause.
        treatment: What became of a value that was there.
        previous: That value, when there was one.
    """

    name: str
    value: str | None
    reason: str
    treatment: Treatment
    previous: str | None = None


ALWAYS = (
    VariableRule("SGLANG_USE_AITER", "1", Policy.DEFAULT, "aiter kernels; without them the page size falls to 1"),
    VariableRule(
        "SGLANG_SET_CPU_AFFINITY",
        "0",
        Policy.OVERRIDE,
        "the engine's own pinning leaves Slurm's CPU set and dies; images preset 1",
    ),
    VariableRule(
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
        "0",
        Policy.OVERRIDE,
        "a context beyond the model's own is an error, not silent nonsense; images preset 1",
    ),
    VariableRule(
        "SGLANG_CUDA_COREDUMP_BEFORE_CRASH",
        "0",
        Policy.DEFAULT,
        "the wait for a CUDA core dump delays the news of a crash by a minute and is useless on ROCm",
    ),
    VariableRule("TOKENIZERS_PARALLELISM", "false", Policy.DEFAULT, "silences a warning about forks"),
    VariableRule("PYTHONUNBUFFERED", "1", Policy.DEFAULT, "a line is read when it is written"),
    VariableRule(
        "SGL_FORCE_SHUTDOWN", "", Policy.REFUSE, "the engine would drop the requests in flight when it is stopped"
    ),
    VariableRule("AITER_REBUILD", "0", Policy.REFUSE, "aiter would throw its compiled modules away at every start"),
)

ONE_NODE = (
    VariableRule("NCCL_NET", "", Policy.UNSET, "a forced network plugin ends a server of one node at its start"),
    VariableRule("NCCL_NET_PLUGIN", "", Policy.UNSET, "a forced network plugin ends a server of one node at its start"),
)

NCCL_PRESET = VariableRule(
    "NCCL_MIN_NCHANNELS", "", Policy.UNSET, "the image's 112 channels are tuned for eight MI300X; here they cost memory"
)
NCCL_PRESET_VALUE = "112"

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYTHING = "*"
"""The value of ``no_proxy`` that uses no proxy at all."""


def rules_for(
    *, nodes: int, gdr_level: int | None, model_is_local: bool, environ: Mapping[str, str]
) -> tuple[VariableRule, ...]:
    """Return the rows that apply.

    Args:
        nodes: Number of nodes that one server spans.
        gdr_level: ``network.gdr_level``.
        model_is_local: The model is a directory, so that nothing needs the hub.
        environ: The caller's environment.
    """
    rows = list(ALWAYS)
    if nodes == 1:
        rows += ONE_NODE
    elif gdr_level is not None:
        rows.append(
            VariableRule(
                "NCCL_NET_GDR_LEVEL",
                str(gdr_level),
                Policy.REFUSE,
                "GPU-direct RDMA silently sums wrongly across nodes of this fabric",
            )
        )
    if environ.get(NCCL_PRESET.name) == NCCL_PRESET_VALUE:
        rows.append(NCCL_PRESET)
    if model_is_local:
        rows.append(VariableRule("HF_HUB_OFFLINE", "1", Policy.DEFAULT, "the model is local: no look-up, no stall"))
    return tuple(rows)


def cache_rules(caches: Iterable[CacheDirectory]) -> tuple[VariableRule, ...]:
    """Return a row per cache directory; the layout has already taken an existing value into account where it may."""
    return tuple(VariableRule(cache.variable, str(cache.path), Policy.OVERRIDE, cache.reason) for cache in caches)


def no_proxy(environ: Mapping[str, str], hosts: Iterable[str]) -> VariableRule:
    """Return the row that keeps loopback and this machine away from an HTTP proxy."""
    present = [name.strip() for name in (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")]
    wanted = dict.fromkeys([*(name for name in present if name), *LOOPBACK, *hosts])
    if EVERYTHING in wanted:
        wanted = {EVERYTHING: None}  # beside other names, Python would take it for the name of a host
    return VariableRule(
        "no_proxy", ",".join(wanted), Policy.OVERRIDE, "a proxy would catch the engine's own warm-up request"
    )


def decide(
    rows: Iterable[VariableRule], *, environ: Mapping[str, str], wishes: Mapping[str, str]
) -> tuple[tuple[Variable, ...], tuple[Finding, ...]]:
    """Apply the rows to an environment.

    Args:
        rows: The rows that apply.
        environ: The caller's environment.
        wishes: ``[engine.env]``: beats every row but *refuse*; ``""`` removes a variable, unless a *refuse* row has
            a value for it.

    Returns:
        The decided variables sorted by name, and a finding for every refused value.
    """
    decided: dict[str, Variable] = {}
    findings: list[Finding] = []
    for row in rows:
        asked = wishes.get(row.name, environ.get(row.name))
        if row.policy is Policy.REFUSE and asked not in {None, "", row.value}:
            findings.append(_refused(row, asked or ""))
        elif row.name not in wishes or (row.policy is Policy.REFUSE and row.value):
            variable = _apply(row, environ.get(row.name))
            if variable is not None:
                decided[row.name] = variable
    for name, value in wishes.items():
        decided.setdefault(name, _wish(name, value, environ.get(name)))
    return tuple(sorted(decided.values(), key=lambda variable: variable.name)), tuple(findings)


def _apply(row: VariableRule, present: str | None) -> Variable | None:
    if row.policy is Policy.UNSET or not row.value:
        return None if present is None else Variable(row.name, None, row.reason, Treatment.UNSET, present)
    if present is None or present == row.value:
        return Variable(row.name, row.value, row.reason, Treatment.SET, present)
    if row.policy is Policy.DEFAULT:
        return Variable(row.name, present, f"{row.reason}; yours is kept", Treatment.KEPT, present)
    return Variable(row.name, row.value, row.reason, Treatment.OVERRIDDEN, present)


def _wish(name: str, value: str, present: str | None) -> Variable:
    if value == "":
        return Variable(name, None, "removed by [engine.env]", Treatment.UNSET, present)
    treatment = Treatment.SET if present in {None, value} else Treatment.OVERRIDDEN
    return Variable(name, value, "set by [engine.env]", treatment, present)


def _refused(row: VariableRule, value: str) -> Finding:
    wanted = f"{row.name}={row.value}" if row.value else f"no {row.name}"
    return Finding(
        rule="environment-refused",
        severity=Severity.ERROR,
        message=f"The environment holds {row.name}={value}, and {row.reason}.",
        remedy=f"Unset it, or say {wanted}.",
        setting=f"engine.env.{row.name}",
    )
