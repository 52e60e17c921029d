"""How long a local tree of caches takes to be filled from a shared one, beside ``cp`` doing the same."""

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.lab import Lab
from bench.record import Record, Topic
from bench.row import Kind, NotMeasuredError, Row
from entrypoint.plan.caches import CACHE_RULES, CacheDirectory
from entrypoint.warm.layers import seed
from entrypoint.warm.transfer import Manner

SEEDED, COPIED = "caches seeded", "caches copied with cp"
FILES = 5000
SLOWEST = 1 / 0.8
"""At least 0.8 times as fast as cp."""
MIB = 1 << 20
KIB = 1 << 10
MODULES, OPERATORS, KERNELS = 110, 60, 480
KERNEL_FILES = {"json": 1, "ttir": 8, "ttgir": 16, "llir": 60, "amdgcn": 100, "hsaco": 30}
"""What Triton keeps of a kernel, each in KiB."""
GRAPHS_KIB = (1, 4, 20, 90)


def sit(lab: Lab, record: Record) -> None:
    """Fill an empty tree both ways, each first in every second round."""
    place = lab.directory / "seeding"
    source, target = place / "shared", place / "local"
    try:
        lay_out(source)
        _seconds(_copy, source, target)  # what a machine does when its memory is first used is nobody's doing
        ways = [(COPIED, _copy), (SEEDED, _seed)]
        for series, way in ways if lab.round_number % 2 else reversed(ways):
            record.add(series, _seconds(way, source, target))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def lay_out(tree: Path) -> None:
    """Make a tree as big as that of a large model: nearly all bytes in a few modules, nearly all files small."""
    content = os.urandom(20 * MIB)
    count = 0
    for count, (path, size_bytes) in enumerate(itertools.islice(_files(), FILES), 1):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content[count : count + size_bytes])
    if count != FILES:
        raise NotMeasuredError(f"the tree has {count} files instead of {FILES}")


def _files() -> Iterator[tuple[str, int]]:
    for number in range(MODULES):
        yield f"aiter/jit/module_{number}.so", 17 * MIB
    for number in range(OPERATORS):
        yield f"aiter/root/build/op_{number}/lib.so", MIB
        yield f"aiter/root/build/op_{number}/op.cpp", 20 * KIB
    for number in range(KERNELS):
        for suffix, size_kib in KERNEL_FILES.items():
            yield f"triton/{number:052d}/kernel.{suffix}", size_kib * KIB
    for number in itertools.count():
        yield f"inductor/{number % 64:02d}/graph{number}.py", GRAPHS_KIB[number % len(GRAPHS_KIB)] * KIB


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)


def _seed(source: Path, target: Path) -> None:
    report = seed(_caches(target), source, target, Manner(time.time()))
    files = sum(variable.copied_files for variable in report.variables)
    if not report.is_complete or files != FILES:
        raise NotMeasuredError(f"{files} files of {FILES} were seeded: {report.stopped or report.failures[:3]}")


def _caches(tree: Path) -> tuple[CacheDirectory, ...]:
    return tuple(
        CacheDirectory(rule.variable, tree / rule.place, rule.layer, rule.reason, tree, rule.place, rule.entries)
        for rule in CACHE_RULES
    )


def _seconds(way: Callable[[Path, Path], None], source: Path, target: Path) -> float:
    """Return how long one way takes, with nothing of what was before still on its way to the disk."""
    os.sync()
    begin_s = time.perf_counter()
    way(source, target)
    taken_s = time.perf_counter() - begin_s
    shutil.rmtree(target)
    return taken_s


def rows(record: Record) -> tuple[Row, ...]:
    """Return the row."""
    return (
        Row(
            "local caches seeded, 2 GB in 5,000 files",
            record.measurement(SEEDED),
            "s",
            record.measurement(COPIED),
            "cp -a --reflink=auto",
            SLOWEST,
            Kind.RATIO,
        ),
    )


TOPIC = Topic("seeding", frozenset({SEEDED, COPIED}), rows)
