"""Runs that share a tree, and builders of a stand-in for aiter that die with their locks, as real processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import wait_for

from entrypoint.plan.caches import CacheDirectory, CacheLayer
from entrypoint.warm.lock_finding import Lock, find
from entrypoint.warm.lock_owner import Alive, Vantage
from entrypoint.warm.locks import LockReport, Tenancy, clear

pytestmark = pytest.mark.process

SOON_S = 30
STANDIN = Path(__file__).resolve().parent.parent / "standin_aiter"
ALONE = Tenancy(alone=True, local=True)
BESIDE_OTHERS = Tenancy(alone=False, local=True)
SEEN_BY_OTHER_NODES = Tenancy(alone=False, local=False)
IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
RUN = """\
import os, sys
from pathlib import Path
from entrypoint.warm.lock_owner import Vantage
from entrypoint.warm.tree_use import enter, this_run
tree = Path(sys.argv[1])
use = enter(tree, tree, this_run({}, tree, Vantage.here(), os.getpid()))
print("ready", flush=True)
sys.stdin.readline()
with use.alone() as alone:
    print("alone" if alone else "not alone", flush=True)
    sys.stdin.readline()
print("shares", flush=True)
if sys.argv[2:]:
    import subprocess
    subprocess.Popen(["cat"], pass_fds=[use.fileno()], stdout=subprocess.DEVNULL)
    print("has a child", flush=True)
sys.stdin.readline()
"""
BUILD = "import sys, aiter\nfor name in sys.argv[1:]: getattr(aiter, name)()\n"
CLEAR = """\
import sys, time
from pathlib import Path
from entrypoint.plan.caches import CacheDirectory, CacheLayer
from entrypoint.warm.lock_finding import find
from entrypoint.warm.lock_owner import Vantage
from entrypoint.warm.locks import Tenancy, clear
root = Path(sys.argv[1])
locks = find([CacheDirectory("AITER_JIT_DIR", root, CacheLayer.LOCAL, "", root, "aiter/jit")], root / "none")
print("ready", flush=True)
sys.stdin.readline()
tenancy = Tenancy(alone=sys.argv[2] == "alone", local=True)
report = clear(locks, tenancy, Vantage.here(), time.time())
for judged in report.removed: print("removed", judged.lock.name)
for judged in report.held: print("held", judged.lock.name, judged.verdict.standing.value)
"""
HOLDERS = {
    "open": "import os, sys; handle = os.open(sys.argv[1], os.O_CREAT | os.O_EXCL)",
    "pid and host": (
        "import os, socket, sys; file = open(sys.argv[1], 'x')\n"
        "file.write(f'{os.getpid()}\\n{socket.gethostname()}\\n'); file.close()"
    ),
    "flock": (
        "import fcntl, os, sys; file = open(sys.argv[1], 'x'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "file.write('1\\nelsewhere\\npid:[1]\\n5\\nflock\\n'); file.flush()"
    ),
}
"""How builders hold a lock: torch and the old aiter, one that closes the file again, and the latest aiter."""


class Talker:
    """A process that is told when to go on, and ends with its test."""

    def __init__(self, words: Sequence[str], after: ExitStack) -> None:
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        after.callback(self.kill)

    @property
    def pid(self) -> int:
        return self.process.pid

    def heard(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def tell(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def rest(self) -> list[str]:
        assert self.process.stdout
        return self.process.stdout.read().splitlines()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()


@pytest.fixture
def after() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def container() -> Sequence[str]:
    """What starts a command with process ids of its own."""
    if os.geteuid() != 0:
        pytest.skip("a pid namespace of its own needs root")
    return IN_A_CONTAINER


def start_run(tree: Path, after: ExitStack, *more: str, within: Sequence[str] = ()) -> Talker:
    """Start a run up to the moment before it asks whether it is alone."""
    run = Talker([*within, sys.executable, "-c", RUN, str(tree), *more], after)
    assert run.heard() == "ready"
    run.tell()
    return run


# Whether a run is alone


def test_of_runs_that_start_at_once_just_one_is_alone(tmp_path: Path, after: ExitStack):
    tree = tmp_path / "tree"
    runs = [Talker([sys.executable, "-c", RUN, str(tree)], after) for _ in range(5)]
    assert {run.heard() for run in runs} == {"ready"}
    for run in runs:
        run.tell()
    for run in runs:
        run.tell()
    assert sorted(run.heard() for run in runs) == ["alone", *["not alone"] * 4]
    assert {run.heard() for run in runs} == {"shares"}
    assert len(list((tree / "users").glob("*.json"))) == 5


def test_nobody_joins_while_one_is_alone(tmp_path: Path, after: ExitStack):
    first = start_run(tmp_path / "tree", after)
    assert first.heard() == "alone"
    second = start_run(tmp_path / "tree", after)
    wait_for(lambda: waits_for_a_lock(second.pid), SOON_S, "the second run waits for the first")
    first.tell()
    assert second.heard() == "not alone"


def test_a_run_that_waited_while_the_tree_was_removed_uses_the_new_one(tmp_path: Path, after: ExitStack):
    first = start_run(tmp_path / "tree", after)
    assert first.heard() == "alone"
    second = start_run(tmp_path / "tree", after)
    wait_for(lambda: waits_for_a_lock(second.pid), SOON_S, "the second run waits for the first")
    (tmp_path / "tree").rename(tmp_path / "removed")
    first.tell()
    assert second.heard() == "alone"
    assert [user.name.split("-")[-2] for user in (tmp_path / "tree" / "users").glob("*.json")] == [str(second.pid)]


def waits_for_a_lock(pid: int) -> bool:
    """Return whether a thread of a process waits for a lock of the kernel's."""
    return any("lock" in (task / "wchan").read_text() for task in Path(f"/proc/{pid}/task").iterdir())


def test_a_run_after_one_that_was_killed_is_alone(tmp_path: Path, after: ExitStack):
    first = start_run(tmp_path / "tree", after)
    assert first.heard() == "alone"
    first.kill()
    assert start_run(tmp_path / "tree", after).heard() == "alone"


def test_an_engine_that_outlives_its_run_keeps_the_tree_in_use(tmp_path: Path, after: ExitStack):
    first = start_run(tmp_path / "tree", after, "with a child")
    first.tell()
    assert [first.heard() for _ in range(3)] == ["alone", "shares", "has a child"]
    os.kill(first.pid, signal.SIGKILL)
    first.process.wait()
    assert start_run(tmp_path / "tree", after).heard() == "not alone"
    os.killpg(first.pid, signal.SIGKILL)


def test_a_run_in_another_container_is_seen(tmp_path: Path, after: ExitStack, container: Sequence[str]):
    first = start_run(tmp_path / "tree", after, within=container)
    first.tell()
    assert first.heard() == "alone"
    assert first.heard() == "shares"
    second = start_run(tmp_path / "tree", after, within=container)
    assert second.heard() == "not alone"


# Locks of living processes


@pytest.mark.parametrize("how", HOLDERS)
def test_a_lock_that_a_living_process_holds_is_never_broken(tmp_path: Path, after: ExitStack, how: str):
    path = tmp_path / "build" / "lock_module_x"
    path.parent.mkdir()
    holder = hold(path, how, after)
    (held,) = cleared(tmp_path).held
    assert held.owner.alive is Alive.YES
    if how != "flock":
        assert f"pid {holder.pid} on {socket.gethostname()}" in held.sentence
    assert path.exists()


@pytest.mark.parametrize("how", HOLDERS)
def test_the_same_lock_is_removed_when_its_holder_was_killed(tmp_path: Path, after: ExitStack, how: str):
    path = tmp_path / "build" / "lock_module_x"
    path.parent.mkdir()
    hold(path, how, after).kill()
    assert [judged.lock.path for judged in cleared(tmp_path).removed] == [path]
    assert not path.exists()


def test_a_lock_of_another_container_stays_unless_this_run_is_alone(
    tmp_path: Path, after: ExitStack, container: Sequence[str]
):
    path = tmp_path / "build" / "lock_module_x"
    path.parent.mkdir()
    holder = hold(path, "pid and host", after)
    assert clear_in(container, tmp_path, "beside others", after) == ["held build/lock_module_x unknown"]
    holder.kill()
    assert clear_in(container, tmp_path, "beside others", after) == ["held build/lock_module_x unknown"]
    assert clear_in(container, tmp_path, "alone", after) == ["removed build/lock_module_x"]


def test_a_flock_is_seen_from_another_container(tmp_path: Path, after: ExitStack, container: Sequence[str]):
    path = tmp_path / "build" / "lock_module_x"
    path.parent.mkdir()
    holder = hold(path, "flock", after)
    assert clear_in(container, tmp_path, "alone", after) == ["held build/lock_module_x live"]
    holder.kill()
    assert clear_in(container, tmp_path, "beside others", after) == ["removed build/lock_module_x"]


def test_a_lock_that_is_released_and_taken_by_another_between_two_looks_stays(tmp_path: Path, after: ExitStack):
    path = tmp_path / "build" / "lock_module_x"
    path.parent.mkdir()
    hold(path, "open", after).kill()
    locks = locks_in(tmp_path)
    path.unlink()
    hold(path, "open", after)
    report = clear(locks, ALONE, Vantage.here(), time.time())
    assert report.removed == ()
    assert path.exists()


def test_two_that_clear_at_once_remove_each_lock_once(tmp_path: Path, after: ExitStack):
    (tmp_path / "build").mkdir()
    ended = subprocess.Popen(["true"])
    ended.wait()
    for number in range(200):
        (tmp_path / "build" / f"lock_module_{number}").write_text(f"{ended.pid}\n{socket.gethostname()}\n")
    both = [Talker([sys.executable, "-c", CLEAR, str(tmp_path), "beside others"], after) for _ in range(2)]
    assert {one.heard() for one in both} == {"ready"}
    for one in both:
        one.tell()
    said = [line for one in both for line in one.rest()]
    assert sorted(said) == sorted(f"removed build/lock_module_{number}" for number in range(200))
    assert list((tmp_path / "build").iterdir()) == []


def hold(path: Path, how: str, after: ExitStack) -> Talker:
    """Start a process that holds a lock."""
    holder = Talker([sys.executable, "-c", f"{HOLDERS[how]}\nprint('holds', flush=True); input()", str(path)], after)
    assert holder.heard() == "holds"
    return holder


def locks_in(directory: Path) -> tuple[Lock, ...]:
    cache = CacheDirectory("AITER_JIT_DIR", directory, CacheLayer.LOCAL, "", directory, "aiter/jit")
    root = CacheDirectory("AITER_ROOT_DIR", directory / "root", CacheLayer.LOCAL, "", directory, "aiter/root")
    return find([cache, root], directory / "none")


def cleared(directory: Path, tenancy: Tenancy = ALONE) -> LockReport:
    return clear(locks_in(directory), tenancy, Vantage.here(), time.time())


def clear_in(container: Sequence[str], directory: Path, tenancy: str, after: ExitStack) -> list[str]:
    """Clear from within another container."""
    clearing = Talker([*container, sys.executable, "-c", CLEAR, str(directory), tenancy], after)
    assert clearing.heard() == "ready"
    clearing.tell()
    return clearing.rest()


# Builders of the stand-in


class Builders:
    """Processes that build with the stand-in for aiter.

    Args:
        directory: Where they build.
        after: Ends what is left.
    """

    def __init__(self, directory: Path, after: ExitStack) -> None:
        self._directory = directory
        self._after = after
        self._count = 0

    def start(self, *operators: str, **switches: str) -> "Builder":
        """Start one that calls operators; switches are the stand-in's, in lower case."""
        self._count += 1
        output = self._directory.with_name(f"output-{self._count}")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._directory),
            "PYTHONPATH": str(STANDIN),
            "PYTHONDONTWRITEBYTECODE": "1",
            "AITER_JIT_DIR": str(self._directory),
            "AITER_ROOT_DIR": str(self._directory / "root"),
            **{f"STANDIN_AITER_{name.upper()}": value for name, value in switches.items()},
        }
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", BUILD, *operators], env=environment, stdout=file, stderr=subprocess.STDOUT
            )
        builder = Builder(process, output)
        self._after.callback(builder.kill)
        return builder


class Builder:
    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def wait(self) -> int:
        return self.process.wait(SOON_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def jit(tmp_path: Path) -> Path:
    (tmp_path / "jit").mkdir()
    return tmp_path / "jit"


@pytest.fixture
def builders(jit: Path, after: ExitStack) -> Builders:
    return Builders(jit, after)


def killed_in_the_middle(builders: Builders, jit: Path) -> Builder:
    builder = builders.start("rms_norm", hang="module_rmsnorm_quant")
    inner = jit / "build/module_rmsnorm_quant/build/lock"
    wait_for(lambda: inner.exists() and inner.read_text(), SOON_S, builder.said)
    builder.kill()
    return builder


def test_locks_that_name_a_dead_builder_are_removed_though_others_use_the_tree(builders: Builders, jit: Path):
    dead = killed_in_the_middle(builders, jit)
    report = cleared(jit, BESIDE_OTHERS)
    assert {judged.lock.name for judged in report.removed} == {
        "build/lock_module_rmsnorm_quant",
        "build/module_rmsnorm_quant/build/lock",
    }
    assert {judged.owner.pid for judged in report.removed} == {dead.process.pid}
    builder = builders.start("rms_norm")
    assert builder.wait() == 0, builder.said()
    assert "waiting for baton" not in builder.said()


def test_a_lock_of_another_host_is_waited_for_until_a_run_that_is_alone_removes_it(builders: Builders, jit: Path):
    killed_in_the_middle(builders, jit)
    for lock in locks_in(jit):
        lock.path.write_text("4711\nelsewhere\n")
    waiting = builders.start("rms_norm")
    wait_for(lambda: "waiting for baton release" in waiting.said(), SOON_S, waiting.said)
    assert (
        cleared(jit, BESIDE_OTHERS if not Vantage.here().sees_every_namespace else Tenancy(False, False)).removed == ()
    )
    assert waiting.process.poll() is None
    waiting.kill()
    assert len(cleared(jit).removed) == 2
    builder = builders.start("rms_norm")
    assert builder.wait() == 0, builder.said()


def test_the_locks_of_living_builders_stay_whatever_they_build(builders: Builders, jit: Path):
    module = builders.start("silu_and_mul", hang="module_activation")
    template = builders.start("top_k_renorm", hang="top_k_renorm_probs")
    wait_for(lambda: len(locks_in(jit)) == 3, SOON_S, "two locks of the module, one of the template")
    report = cleared(jit)
    assert report.removed == ()
    assert {judged.owner.pid for judged in report.held} == {module.process.pid, template.process.pid}


def test_the_lock_of_a_template_whose_builder_crashed_is_removed(builders: Builders, jit: Path):
    builder = builders.start("top_k_renorm", crash=f"top_k_renorm_probs={signal.SIGSEGV.value}")
    assert builder.wait() == -signal.SIGSEGV
    assert len(cleared(jit).removed) == 1
    assert builders.start("top_k_renorm").wait() == 0


# What the stand-in does


def test_the_standin_builds_a_module_once(builders: Builders, jit: Path):
    first = builders.start("rms_norm", "rms_norm", "top_p_renorm", "flash_attn_varlen_func")
    assert first.wait() == 0, first.said()
    assert first.said().count("start build [module_rmsnorm_quant] under ") == 1
    assert first.said().count("import [module_rmsnorm_quant] under ") == 1
    assert (jit / "mha_varlen_fwd_bf16_nmask.so").exists()
    assert len(list((jit / "root/build").glob("top_p_renorm_probs_*/lib.so"))) == 1
    second = builders.start("rms_norm", "top_p_renorm")
    assert second.wait() == 0
    assert "start build" not in second.said()


def test_the_standin_says_that_a_build_has_finished_when_it_failed(builders: Builders, jit: Path):
    builder = builders.start("silu_and_mul", fail="module_activation")
    assert builder.wait() == 1
    assert "error: use of undeclared identifier" in builder.said()
    assert "failed jit build [module_activation]" in builder.said()
    assert "finish build [module_activation], cost" in builder.said()
    assert "failed !!!!!!" in builder.said()
    assert locks_in(jit) == ()


def test_the_standin_can_lie_about_what_it_built(builders: Builders, jit: Path):
    builder = builders.start("silu_and_mul", lie="module_activation")
    assert builder.wait() == 1
    assert "failed jit build" not in builder.said()
    assert "finish build [module_activation], cost" in builder.said()
    assert not (jit / "module_activation.so").exists()


def test_the_standin_waits_for_another_process_and_then_builds_nothing(builders: Builders, jit: Path):
    first = builders.start("silu_and_mul", seconds="module_activation=1.5")
    wait_for((jit / "build/lock_module_activation").exists, SOON_S, first.said)
    second = builders.start("silu_and_mul")
    assert second.wait() == 0, second.said()
    assert "waiting for baton release at" in second.said()
    assert "start build" not in second.said()


def test_the_standin_breaks_the_lock_of_a_dead_process_of_this_host(builders: Builders, jit: Path):
    killed_in_the_middle(builders, jit)
    builder = builders.start("rms_norm")
    assert builder.wait() == 0, builder.said()
    assert builder.said().count("broke stale lock at") == 2


def test_the_standin_cannot_be_imported_without_a_gpu(builders: Builders):
    assert builders.start("rms_norm", no_gpu="1").wait() == 1
