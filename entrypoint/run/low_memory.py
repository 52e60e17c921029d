"""What is said when memory is about to run out."""

from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode
from entrypoint.run.memory_history import LowMemory
from entrypoint.verdict.wording import size


def low_memory_finding(low: LowMemory) -> Finding:
    """Return the warning, with who holds most."""
    soon = f"in about {low.seconds_to_floor:.0f} s" if low.seconds_to_floor > 0 else "now"
    held = f" Most is held by {', '.join(low.owners)}." if low.owners else ""
    return Finding(
        "memory-low",
        Severity.WARNING,
        f"{size(low.headroom_bytes)} of memory are left; the floor of {size(low.floor_bytes)} is reached {soon}.{held}",
        "Send fewer or shorter requests, or stop what else runs here; next time lower engine.mem_fraction_static. "
        'watch.on_low_memory = "drain" would end the run in order before the kernel does.',
        "watch.memory_floor_gib",
        ExitCode.OUT_OF_MEMORY,
    )
