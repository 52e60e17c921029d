"""Runs in the emulated machine: real kills at limits of version 2, read and explained as a supervisor does it.

Prints a line of JSON for each scene.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from entrypoint.exit_status import ExitStatus
from entrypoint.node.memory import Subjects, find_subjects, take_sample
from entrypoint.run.memory_history import MemoryHistory
from entrypoint.verdict.evidence import LogEvidence, RankEnd
from entrypoint.verdict.explain import explain

MOUNT = Path("/sys/fs/cgroup")
LIMIT = "64M"
CHILD = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
print(flush=True)
sys.stdin.readline()
grown = []
while True:
    grown.append(b"x" * (1 << 20))
"""
"""Enters a group, waits for a word, and then takes memory until somebody ends it."""


def group(path: str, settings: Mapping[str, str]) -> Path:
    """Make a group below the mount, whose parent hands the memory on."""
    made = MOUNT / path
    (made.parent / "cgroup.subtree_control").write_text("+memory")
    made.mkdir()
    for name, value in settings.items():
        (made / name).write_text(value)
    return made


def child(place: Path) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", CHILD, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert started.stdout is not None
    started.stdout.readline()
    return started


class Watch:
    """What the memory watch does, without its thread."""

    def __init__(self) -> None:
        self.history = MemoryHistory(floor_gib=0.01, warn_s=60, every_s=1)
        self.subjects: Subjects | None = None

    def look(self) -> None:
        self.subjects = find_subjects(os.getpid(), before=self.subjects)
        self.history.note(take_sample(self.subjects, time.time(), time.monotonic()))

    def told(self, status: ExitStatus) -> dict[str, object]:
        """Return what is counted and explained of an end."""
        memory = self.history.evidence(time.time())
        assert memory is not None
        verdict = explain([RankEnd(0, "ready", LogEvidence("server-0.log"), True, status, memory)])
        return {
            "group_kills": memory.cgroup_oom_kills,
            "node_kills": memory.node_oom_kills,
            "code": int(verdict.code),
            "cause": verdict.cause,
            "confidence": verdict.confidence,
            "summary": verdict.summary,
        }


def play(name: str, place: Path, *, grows: bool) -> None:
    """Have one of two processes in a group end, by the kernel or by this process, and print what is told of it."""
    watch, victim, bystander = Watch(), child(place), child(place)
    watch.look()
    watch.history.begin_engine()
    watch.look()
    if grows:
        assert victim.stdin is not None
        victim.stdin.write(b"\n")
        victim.stdin.flush()
    else:
        victim.kill()
    status = ExitStatus.from_return_code(victim.wait())
    if (place / "memory.oom.group").read_text() == "1\n":
        bystander.wait()
    watch.look()
    told = {"scene": name, "bystander": bystander.poll(), **watch.told(status)}
    bystander.kill()
    bystander.wait()
    print(json.dumps(told), flush=True)  # noqa: T201


play("limit", group("limit", {"memory.max": LIMIT}), grows=True)
group("above", {"memory.max": LIMIT})
play("limit above", group("above/engine", {}), grows=True)
play("together", group("together", {"memory.max": LIMIT, "memory.oom.group": "1"}), grows=True)
play("a kill", group("kill", {"memory.max": LIMIT}), grows=False)
