"""Trees of caches as builders leave them, and what tests compare of them."""

import os
import random
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from entrypoint.plan.cache_key import CacheKey
from entrypoint.plan.caches import CACHE_RULES, CacheDirectory
from entrypoint.warm.lock_owner import Vantage
from entrypoint.warm.staging import Maker
from entrypoint.warm.transfer import Manner

NOW_S = 1_700_000_000.0
OLD_NS = 1_600_000_000_123_456_789
KEY = CacheKey("sglang-1", "gfx942", "kimi-k2")
MAKER = Maker(7, Vantage("n0", 1, 0, 0.0, Path("/nonexistent")), 70)
"""A process that can be told from every other, and sees none that lives."""

Snapshot = Mapping[str, tuple[object, ...]]


def caches(tree: Path) -> tuple[CacheDirectory, ...]:
    """Every cache of the table, in this tree."""
    return tuple(
        CacheDirectory(
            rule.variable, tree / rule.place, rule.layer, rule.reason, tree, rule.place, rule.entries, rule.keeping
        )
        for rule in CACHE_RULES
    )


def manner(quiet_s: float = 60.0, workers: int = 2) -> Manner:
    return Manner(NOW_S, quiet_s, workers, maker=MAKER)


def write(path: Path, content: bytes | None = None, mode: int = 0o644) -> Path:
    """Write a file that nobody has touched for long; without a content, with one that follows from its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if content is not None else random.Random(str(path.name)).randbytes(3000))
    path.chmod(mode)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    return path


def age(tree: Path) -> None:
    """Let nothing in a tree have been touched for long."""
    for below, directories, files in os.walk(tree):
        for name in (*directories, *files):
            os.utime(f"{below}/{name}", ns=(OLD_NS, OLD_NS), follow_symlinks=False)
    os.utime(tree, ns=(OLD_NS, OLD_NS))


def lay_out(tree: Path, numbers: Iterable[int] = range(10), salt: str = "") -> tuple[str, ...]:
    """Make six finished entries for each number, of every kind, all of them old; return where they are.

    Args:
        tree: The tree.
        numbers: Which.
        salt: Makes other contents of the same names.
    """
    made: list[str] = []
    for name in map(str, numbers):
        number = int(name)
        content = random.Random(salt + name).randbytes
        write(tree / f"aiter/jit/module_{name}.so", content(20_000 + number))
        operator = f"aiter/root/build/op_{name}"
        write(tree / operator / "lib.so", content(9_000))
        write(tree / operator / "op.cpp", content(100))
        kernel = f"triton/KERNEL{name}"
        for suffix in ("json", "ttir", "hsaco"):
            write(tree / kernel / f"k.{suffix}", content(500))
        graph = f"inductor/{number % 3}/graph{name}.py"
        write(tree / graph, content(0 if number == 0 else 700))
        extension = f"torch_extensions/ext_{name}"
        write(tree / extension / "obj" / "a.o", content(300))
        write(tree / extension / f"ext_{name}.so", content(5_000), 0o755)
        (tree / extension / "latest.so").symlink_to(f"ext_{name}.so")
        home = f"home/.aiter/jit/module_home_{name}.so"
        write(tree / home, content(400))
        made += [f"aiter/jit/module_{name}.so", operator, kernel, graph, extension, home]
    age(tree)
    return tuple(made)


def snapshot(tree: Path) -> Snapshot:
    """Everything in a tree, or a file alone: contents, links, modes, and the times of files."""
    if not tree.is_dir():
        return {"": _told(tree)} if os.path.lexists(tree) else {}
    found = {}
    for below, directories, files in os.walk(tree):
        for name in (*directories, *files):
            path = Path(below, name)
            found[str(path.relative_to(tree))] = _told(path)
    return found


def _told(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISDIR(status.st_mode):
        return ("directory",)
    return ("file", path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_mtime_ns)


def assert_nothing_torn(target: Path, sources: Iterable[Path], entries: Iterable[str]) -> int:
    """Every entry is as in a source or not there, and nothing else is there; return how many there are."""
    sources = tuple(sources)
    whole = 0
    for entry in entries:
        if os.path.lexists(target / entry):
            told = [snapshot(source / entry) for source in sources if os.path.lexists(source / entry)]
            assert snapshot(target / entry) in told, f"{entry} is torn"
            whole += 1
    foreign = [path for path, told in visible(target).items() if told[0] != "directory" and not _is_in(path, entries)]
    assert foreign == []
    return whole


def _is_in(path: str, entries: Iterable[str]) -> bool:
    return any(path == entry or path.startswith(f"{entry}/") for entry in entries)


def visible(tree: Path) -> Snapshot:
    """Everything in a tree but what is being staged, and our own marker."""
    hidden = (".staging", "seeded.json")
    return {path: told for path, told in snapshot(tree).items() if path.partition("/")[0] not in hidden}


def files(tree: Path) -> Snapshot:
    """The files and links of a tree."""
    return {path: told for path, told in visible(tree).items() if told[0] != "directory"}
