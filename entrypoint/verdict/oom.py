"""Out of memory: what may be called so, and how sure that is.

SGLang kills itself with SIGKILL on most failures, so that signal alone is no proof. A confirmation is needed: a counter
of the kernel that rose, a line of the kernel or of Slurm, or a curve that ended at the floor. And the kernel may kill
a helper instead of the big one, so that a counter that rose in the engine's own cgroup needs no kill that was seen.
"""

import signal
from dataclasses import dataclass

from entrypoint.cause import Cause, Confidence
from entrypoint.engine.signature import Role, SignatureHit
from entrypoint.verdict.evidence import MemoryEvidence, RankEnd
from entrypoint.verdict.wording import size

LITTLE_GIB = 8.0
"""Last memory figure of the engine that is little on a node of 512 GB; without a curve it is only a hint."""
SELF_KILLS = ("exit.sigquit_launch", "exit.sigquit_run", "run.warmup", "run.warmup_proxy", "exit.sched_exc")
"""Signatures after which the engine kills itself with SIGKILL (0.5.23)."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Memory was the cause.

    Attributes:
        confidence: How sure that is.
        reasons: Why, one sentence each.
        lines: Lines of the log that say so.
    """

    confidence: Confidence
    reasons: tuple[str, ...]
    lines: tuple[str, ...] = ()


def out_of_memory(end: RankEnd) -> OutOfMemory | None:
    """Return whether a rank ended for want of memory, as far as its end shows it; None where nothing suggests it.

    ==============================================  ==========  ==============================================
    seen                                            killed      confidence
    ==============================================  ==========  ==============================================
    counter of the engine's cgroup rose             any         certain
    line of the kernel or of Slurm in the log       any         certain
    counter of the node rose, memory at the floor   yes         certain
    counter of the node rose, no cgroup counts      yes         probable
    counter of the node rose, not the cgroup's      yes         none: that was somebody else's process
    memory at the floor, no counter to be read      yes         probable
    memory at the floor, no counter rose            yes         none: somebody else killed it
    the engine's last figure was small              yes         possible
    ==============================================  ==========  ==============================================
    """
    killed = was_killed(end)
    memory = end.memory
    if memory is not None and memory.cgroup_oom_kills:
        return OutOfMemory(Confidence.CERTAIN, (_cgroup_reason(memory),))
    confirmations = _confirmations(end)
    if confirmations:
        lines = tuple(hit.line for hit in confirmations)
        return OutOfMemory(Confidence.CERTAIN, (confirmations[0].signature.because,), lines)
    if not killed:
        return None
    if memory is not None and memory.node_oom_kills and (memory.at_floor or memory.cgroup_oom_kills is None):
        at_floor = (_floor_reason(memory),) if memory.at_floor else ()
        confidence = Confidence.CERTAIN if memory.at_floor else Confidence.PROBABLE
        return OutOfMemory(confidence, ("The node's counter oom_kill rose in /proc/vmstat.", *at_floor))
    if memory is not None and memory.at_floor and not _counted(memory):
        return OutOfMemory(
            Confidence.PROBABLE,
            (_floor_reason(memory), "No counter of out-of-memory kills could be read, so that this is an inference."),
        )
    return _hint(end)


def was_killed(end: RankEnd) -> bool:
    """Return whether a process of the engine got a SIGKILL that is not the engine's own way to end."""
    if any(death.status.signal == signal.SIGKILL for death in end.log.child_deaths):
        return True
    main_killed = end.status is not None and end.status.signal == signal.SIGKILL
    return main_killed and not killed_itself(end)


def killed_itself(end: RankEnd) -> bool:
    """Return whether the log shows the engine on its way to kill itself."""
    return any(hit.signature.id in SELF_KILLS and not hit.health_after for hit in end.log.hits)


def nobody_was_out_of_memory(end: RankEnd) -> bool:
    """Return whether the kernel's counters were read and none rose: whoever killed, it was not the kernel."""
    return end.memory is not None and _counted(end.memory) and not _rose(end.memory)


def _counted(memory: MemoryEvidence) -> bool:
    return memory.node_oom_kills is not None or memory.cgroup_oom_kills is not None


def _rose(memory: MemoryEvidence) -> bool:
    return bool(memory.node_oom_kills or memory.cgroup_oom_kills)


def _confirmations(end: RankEnd) -> tuple[SignatureHit, ...]:
    return tuple(
        hit
        for hit in end.log.hits
        if hit.signature.role is Role.CONFIRMATION and hit.signature.cause is Cause.MEMORY and not hit.health_after
    )


def _hint(end: RankEnd) -> OutOfMemory | None:
    """Return the weakest kind: nobody watched memory, and the engine's last figure was small."""
    left = end.log.available_gib
    if left is None or left > LITTLE_GIB or nobody_was_out_of_memory(end):
        return None
    return OutOfMemory(Confidence.POSSIBLE, (f"The engine's last memory figure was {left:.1f} GiB.",))


def _cgroup_reason(memory: MemoryEvidence) -> str:
    kills = memory.cgroup_oom_kills or 0
    processes = "a process" if kills == 1 else f"{kills} processes"
    limit = f", whose limit is {size(memory.limit_bytes)}" if memory.limit_bytes is not None else ""
    return f"The kernel's out-of-memory killer ended {processes} of the cgroup {memory.limit_of or '/'}{limit}."


def _floor_reason(memory: MemoryEvidence) -> str:
    if not memory.points:
        return "Memory had reached its floor."
    left = memory.points[-1].headroom_bytes
    return f"At the last look {size(left)} of {size(memory.limit_bytes or memory.total_bytes)} were left."
