"""Stacks: where every process of a hung engine stands, taken from outside before anything is killed.

``py-spy`` reads the frames out of a process's memory, so that it needs no help of an interpreter that is stuck. A
process that is stopped, by a signal or in the kernel, cannot be paused first; its frames are then read as they lie.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from entrypoint.node.kernel_file import content
from entrypoint.node.processes import descendants
from entrypoint.offload import offload
from entrypoint.settings.redaction import Masker
from entrypoint.tell.files import write_private

EACH_S = 5.0
ALL_S = 15.0
AT_ONCE = 4
FRAMES_SHOWN = 5
STOPPED_STATES = frozenset("TtD")
"""Process states in which there is nothing to pause: stopped, traced, and deep in the kernel (proc(5))."""
_MAIN_THREAD = re.compile(r'^Thread [^\n]*"MainThread"$', re.MULTILINE)
_ANY_THREAD = re.compile(r"^Thread ", re.MULTILINE)
_FRAME = re.compile(r"^    (\S.*)$", re.MULTILINE)
_REFUSED = re.compile("permission denied|operation not permitted", re.IGNORECASE)
"""What py-spy 0.4 and the kernel say where the capability is missing."""
NO_BINARY = "py-spy is not installed beside supervise"
NOT_PERMITTED = "not permitted; the container needs the capability SYS_PTRACE"


@dataclass(frozen=True, slots=True)
class ProcessStack:
    """Where one process stands.

    Attributes:
        pid: Its process id.
        name: Its name.
        state: Its state, as proc(5) has it: R runs, S sleeps, D waits in the kernel, T is stopped.
        frames: The innermost frames of its main thread, innermost first.
        text: All threads, as ``py-spy dump`` prints them; or why there is nothing.
    """

    pid: int
    name: str
    state: str
    frames: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        where = " < ".join(self.frames) if self.frames else self.text.strip().splitlines()[-1] if self.text else "gone"
        return f"{self.name} ({self.pid}, {self.state or '?'}): {where}"


async def take_stacks(root: int) -> tuple[ProcessStack, ...]:
    """Return where the processes below one stand, in bounded time; what could not be had is said.

    Args:
        root: The process above them, the warden.
    """
    pids = await offload(lambda: descendants(root), "stacks")
    places = asyncio.Semaphore(AT_ONCE)
    taken: dict[int, ProcessStack] = {}

    async def take(pid: int) -> None:
        async with places:
            taken[pid] = await _stack_of(pid)

    tasks = [asyncio.create_task(take(pid)) for pid in pids]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=ALL_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tuple(taken[pid] for pid in pids if pid in taken)


async def _stack_of(pid: int) -> ProcessStack:
    name, state = _identity(pid)
    text = await _dump(pid, stopped=state in STOPPED_STATES)
    return ProcessStack(pid, name, state, _main_frames(text), text)


def _identity(pid: int) -> tuple[str, str]:
    """Return a process's name and state; empty where it is gone."""
    status = (content(f"/proc/{pid}/stat") or b"").decode("utf-8", "replace")
    name, _, rest = status.partition("(")[2].rpartition(")")
    return name, rest.split()[0] if rest.split() else ""


async def _dump(pid: int, *, stopped: bool) -> str:
    binary = _binary()
    if binary is None:
        return NO_BINARY
    argv = [binary, "dump", "--pid", str(pid), *(["--nonblocking"] if stopped else [])]
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), EACH_S)
    except TimeoutError:
        return f"py-spy did not answer within {EACH_S:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode("utf-8", "replace")
    return NOT_PERMITTED if _REFUSED.search(text) else text


def _binary() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def _main_frames(text: str) -> tuple[str, ...]:
    """Return the innermost frames of the main thread, or of the first where none has that name."""
    begin = _MAIN_THREAD.search(text) or _ANY_THREAD.search(text)
    if begin is None:
        return ()
    block = text[begin.end() :].partition("\nThread ")[0]
    return tuple(frame.strip() for frame in _FRAME.findall(block)[:FRAMES_SHOWN])


def write_stacks(path: Path, stacks: Sequence[ProcessStack], masker: Masker) -> None:
    """Write all stacks to a file that only its owner reads.

    Raises:
        OSError: It cannot be written.
    """
    parts = [
        f"== {stack.name} ({stack.pid}), state {stack.state or 'gone'}\n{stack.text.rstrip()}\n" for stack in stacks
    ]
    write_private(path, masker.mask_text("\n".join(parts)))
