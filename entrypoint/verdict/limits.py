"""Limits with a known length: a failure that took exactly so long is named after its limit.

Numbers of SGLang 0.5.23 and of PyTorch's NCCL process group.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from entrypoint.engine.signature import SignatureHit
from entrypoint.verdict.evidence import LogEvidence, RankEnd

NCCL_DEFAULT_S = 600.0
LOAD_BARRIER_S = 480.0
WARMUP_DEFAULT_S = 600.0
WATCHDOG_DEFAULT_S = 300.0
SLACK_S = 20.0
"""By how much an observed time may exceed its limit and still be that limit."""


WAITED_IN_VAIN = frozenset(
    {
        "load.skew",
        "net.barrier",
        "net.gloo_mesh",
        "net.gloo_timeout",
        "net.nccl_system",
        "net.nccl_timeout",
        "net.store_timeout",
        "run.warmup",
        "run.watchdog",
    }
)
"""Signatures of somebody who waited for another: what that one failed of is not said by them."""


def waited_s(hit: SignatureHit, end: RankEnd) -> float:
    """Return for how long a line's failure had been waited for: what it tells of began so much earlier."""
    wait = _WAITS.get(hit.signature.id)
    return wait(hit, end) if wait else 0.0


def named_limit(hit: SignatureHit, end: RankEnd) -> str | None:
    """Return a sentence that names the limit which a failure ran into, where its number fits."""
    name = _NAMES.get(hit.signature.id)
    return name(hit, end) if name else None


def _fits(observed_s: float, limit_s: float) -> bool:
    return limit_s <= observed_s <= limit_s + SLACK_S


def _milliseconds(hit: SignatureHit, _: RankEnd) -> float:
    return float(hit.fields.get("ms", 0)) / 1000


def _seconds(hit: SignatureHit, _: RankEnd) -> float:
    return float(hit.fields.get("seconds", 0))


def _nccl_name(hit: SignatureHit, end: RankEnd) -> str | None:
    took_s = _milliseconds(hit, end)
    if not _fits(took_s, NCCL_DEFAULT_S):
        return None
    return "The time is NCCL's default limit of 10 minutes, which --dist-timeout changes."


def _barrier_name(_: SignatureHit, __: RankEnd) -> str:
    return "It is the engine's barrier after loading: ranks of one group may finish 480 s apart, which no flag changes."


def _watchdog_name(hit: SignatureHit, end: RankEnd) -> str | None:
    limit_s = _seconds(hit, end)
    if not limit_s:
        return None
    default = ", its default" if limit_s == WATCHDOG_DEFAULT_S else ""
    return f"The limit is --watchdog-timeout, {limit_s:.0f} s{default}."


def _warmup_name(hit: SignatureHit, end: RankEnd) -> str | None:
    up = _engine_up_at(end.log)
    if up is None or hit.unix_s is None or not _fits(hit.unix_s - up, WARMUP_DEFAULT_S):
        return None
    return "The time is the engine's limit of 600 s for its own warm-up, which SGLANG_WARMUP_TIMEOUT changes."


def _engine_up_at(log: LogEvidence) -> float | None:
    return next((phase.unix_s for phase in log.phases if phase.name == "engine-up"), None)


_WAITS: Mapping[str, Callable[[SignatureHit, RankEnd], float]] = MappingProxyType(
    {
        "net.nccl_timeout": _milliseconds,
        "run.watchdog": _seconds,
        "load.skew": lambda _, __: LOAD_BARRIER_S,
        "net.barrier": _milliseconds,
        "net.gloo_timeout": _milliseconds,
        "net.store_timeout": lambda hit, end: _seconds(hit, end) or _milliseconds(hit, end),
    }
)
_NAMES: Mapping[str, Callable[[SignatureHit, RankEnd], str | None]] = MappingProxyType(
    {
        "net.nccl_timeout": _nccl_name,
        "load.skew": _barrier_name,
        "run.watchdog": _watchdog_name,
        "run.warmup": _warmup_name,
        "run.warmup_proxy": _warmup_name,
    }
)
