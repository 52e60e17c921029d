"""Runs in the emulated machine: whole runs of supervise at limits of version 2.

Prints a line of JSON for each.
"""

import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness import SUPERVISE, Supervised
from parts.death import OUT_OF_MEMORY
from stage import Stage, lay_out_model, playing

MOUNT = Path("/sys/fs/cgroup")
LIMIT_MIB = 256
ENTER = 'echo $$ > "$0"; exec "$@"'
PATIENCE_S = 120
EATERS: Mapping[str, Mapping[str, Any]] = {
    "main": {"eats_at": "load", "hangs_at": "load"},
    "scheduler": {"eats_at": "load", "hangs_at": "load", "eats_who": "scheduler"},
}


def eat(stage: Stage, who: str) -> Supervised:
    """Have a process of the engine take memory until the kernel kills it."""
    group = MOUNT / who
    group.mkdir()
    (group / "memory.max").write_text(f"{LIMIT_MIB}M")
    run = stage.make(**EATERS[who])
    run.command = ("sh", "-c", ENTER, str(group / "cgroup.procs"), *SUPERVISE)
    with run:
        status = run.wait(PATIENCE_S)
        run.assert_nothing_left(PATIENCE_S)
    assert status == OUT_OF_MEMORY, run.stderr()
    return run


if __name__ == "__main__":
    (MOUNT / "cgroup.subtree_control").write_text("+memory")
    directory = Path(tempfile.mkdtemp())
    stage = Stage(directory, lay_out_model(directory / "model"), iter(range(20000, 20100)))
    with playing({who: partial(eat, stage, who) for who in EATERS}) as runs:
        for who, run in runs.items():
            print(json.dumps({"who": who, "report": run.result().report()}))  # noqa: T201
