"""The floor: how little memory is too little."""

SMALL_NODE_BYTES = 64 << 30
SMALL_SHARE = 0.05


def effective_floor_bytes(floor_gib: float, limit_bytes: int) -> int:
    """Return the headroom at which the end is near.

    That is what the setting says, made for nodes of hundreds of GiB. Where less than 64 GiB may be used at all, be it
    the node's memory or a cgroup's limit, it is at most 5 % of that: 8 GiB would be half of a laptop, and a warning
    that is always there is none.

    Args:
        floor_gib: The setting ``watch.memory_floor_gib``.
        limit_bytes: What may be used at all.
    """
    floor_bytes = int(floor_gib * (1 << 30))
    return floor_bytes if limit_bytes >= SMALL_NODE_BYTES else min(floor_bytes, int(limit_bytes * SMALL_SHARE))
