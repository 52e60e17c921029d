"""Who holds a lock file: what it says, and which processes have it open.

Builders make such a file, keep it open while they build, and remove it. A killed builder leaves the file, and nobody
has it open any more.
"""

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from entrypoint.node import kernel_file
from entrypoint.warm.lock_words import LockWords, inode, is_flocked, read_words

PROC: Final = Path("/proc")
INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC
"""Inode of the pid namespace that all others are below (PROC_PID_INIT_INO): from there every process is seen."""
CLOCK_SLACK_S: Final = 60.0
"""A file server's clock may differ from this node's by so much."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_START, _STATE = 19, 0
"""Fields 22 and 3 of /proc/<pid>/stat, counted behind the name."""

Identity = tuple[int, int]
"""Device and inode of a file."""


class Alive(StrEnum):
    """Whether the holder of a lock lives."""

    YES = "yes"
    NO = "no"
    """It is proven that nobody holds it."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a lock, as far as can be told.

    Attributes:
        pid: The process; None where none is known.
        host: Its host; empty where none is known.
        since_unix_s: Since when.
        job: Its Slurm job; empty where none is known.
        alive: Whether it lives.
        how_known: Why that is believed, as a clause: "no process has it open".
        run_directory: Where its run writes its report; empty where that is not known.
    """

    pid: int | None
    host: str
    since_unix_s: float
    job: str
    alive: Alive
    how_known: str
    run_directory: str = ""


@dataclass(frozen=True, slots=True)
class Vantage:
    """From where processes are looked at.

    Attributes:
        host: This host's name.
        pid_namespace: Inode of the pid namespace; 0 where the kernel does not tell.
        user_id: Whose processes these are.
        boot_unix_s: When the host was started, in seconds since 1970.
        proc: Where the kernel tells about processes.
    """

    host: str
    pid_namespace: int
    user_id: int
    boot_unix_s: float
    proc: Path = PROC

    @classmethod
    def here(cls, proc: Path = PROC) -> "Vantage":
        """Return the vantage of this process."""
        boot_s = kernel_file.field(kernel_file.content(f"{proc}/stat"), b"btime")
        return cls(socket.gethostname(), _namespace(proc), os.geteuid(), float(boot_s or 0), proc)

    @property
    def sees_every_namespace(self) -> bool:
        """Whether the processes of all containers are among those seen."""
        return self.pid_namespace == INITIAL_PID_NAMESPACE

    def unix_s(self, ticks: int) -> float:
        """Return a number of clock ticks since the host's start in seconds since 1970."""
        return self.boot_unix_s + ticks / _TICKS_PER_S


@dataclass(frozen=True, slots=True)
class Openers:
    """Which of this user's processes have files open.

    Attributes:
        pids: The lowest process id by the file's identity.
        everyone: Whether all processes of this user were looked at, in whatever container of the node.
    """

    pids: Mapping[Identity, int]
    everyone: bool


def openers(wanted: Mapping[Identity, Path], vantage: Vantage) -> Openers:
    """Return who has files open.

    Whoever opened one only to read it has closed it at the second look.

    Args:
        wanted: The files, by device and inode.
        vantage: From where.
    """
    names = {path.name for path in wanted.values()}
    found: dict[Identity, list[tuple[int, Path]]] = {}
    everyone = vantage.sees_every_namespace
    for pid in _own_processes(vantage):
        try:
            for descriptor in Path(f"{vantage.proc}/{pid}/fd").iterdir():
                identity = _open_as(descriptor, names)
                if identity is not None and identity in wanted:
                    found.setdefault(identity, []).append((pid, descriptor))
        except PermissionError:
            everyone = False
        except OSError:  # it has ended
            continue
    pids = {
        identity: min(still)
        for identity, places in found.items()
        if (still := [pid for pid, descriptor in places if _open_as(descriptor, names) == identity])
    }
    return Openers(pids, everyone)


def owner_of(path: Path, status: os.stat_result, opened: Openers, vantage: Vantage, *, local: bool) -> Owner:
    """Return who holds a lock file.

    Args:
        path: The lock.
        status: Of the lock itself.
        opened: Who has what open, looked up after the status.
        vantage: From where.
        local: Whether no other node can see the file.
    """
    since_unix_s = status.st_mtime
    if status.st_uid != vantage.user_id:
        return Owner(None, "", since_unix_s, "", Alive.UNKNOWN, f"it belongs to user {status.st_uid}")
    words = read_words(path)
    opener = opened.pids.get((status.st_dev, status.st_ino))
    if opener is not None:
        job = job_of_process(opener, vantage)
        return Owner(opener, vantage.host, since_unix_s, job, Alive.YES, "the process has it open")
    if words.flock and (local or words.host == vantage.host) and (held := is_flocked(path)) is not None:
        alive, how_known = (
            (Alive.YES, "it is locked in the kernel") if held else (Alive.NO, "the kernel has released its lock")
        )
    else:
        alive, how_known = _alive(words, since_unix_s, vantage)
    if alive is Alive.UNKNOWN and local and opened.everyone:
        alive, how_known = Alive.NO, "no process has it open"
    job = job_of_process(words.pid, vantage) if words.pid is not None and alive is Alive.YES else ""
    return Owner(words.pid, words.host, since_unix_s, job, alive, how_known)


def owner_by_pid(pid: int, since_unix_s: float, opened: Openers, vantage: Vantage) -> Owner:
    """Return the owner of something that names a process of this host, and that nobody keeps open.

    Args:
        pid: The process, in a namespace that is not known.
        since_unix_s: When that something was made.
        opened: Who has what open: only whether everyone was seen matters.
        vantage: From where.
    """
    alive, how_known = _alive(LockWords(pid, vantage.host), since_unix_s, vantage)
    if alive is Alive.UNKNOWN and opened.everyone:
        alive, how_known = Alive.NO, f"pid {pid} is gone"
    return Owner(pid, vantage.host, since_unix_s, "", alive, how_known)


def start_ticks(pid: int, proc: Path = PROC) -> int | None:
    """Return when a living process began, in clock ticks since the host's start; None where there is none."""
    words = (kernel_file.content(f"{proc}/{pid}/stat") or b"").rpartition(b")")[2].split()
    if len(words) <= _START or words[_STATE] in (b"Z", b"X"):
        return None
    return kernel_file.whole_number(words[_START])


def job_of_process(pid: int, vantage: Vantage) -> str:
    """Return the Slurm job of a process; empty where it has none or may not be looked at."""
    environ = kernel_file.content(f"{vantage.proc}/{pid}/environ") or b""
    found = (entry for entry in environ.split(b"\0") if entry.startswith(b"SLURM_JOB_ID="))
    return next(found, b"").partition(b"=")[2].decode("utf-8", "replace")


def _alive(words: LockWords, since_unix_s: float, vantage: Vantage) -> tuple[Alive, str]:
    """Return whether the process that a lock names lives, and why that is believed."""
    if words.pid is None:
        return Alive.UNKNOWN, "it does not say who made it"
    pid = f"pid {words.pid}"
    if words.host != vantage.host:
        return Alive.UNKNOWN, f"{pid} is of {words.host}, which cannot be looked at from here"
    if words.pid_namespace not in (0, vantage.pid_namespace):
        return Alive.UNKNOWN, f"{pid} is of another container, whose processes have numbers of their own"
    if _is_that_process(words, since_unix_s, vantage):
        return Alive.YES, f"{pid} lives"
    if words.pid_namespace:
        return Alive.NO, f"{pid} is gone"
    # A number alone may be one of another container's, which is at work and has another number here or none.
    return Alive.UNKNOWN, f"{pid} is gone, unless it is one of another container"


def _is_that_process(words: LockWords, since_unix_s: float, vantage: Vantage) -> bool:
    """Return whether a process lives that has a lock's number and may have made it: numbers are given out again."""
    ticks = None if words.pid is None else start_ticks(words.pid, vantage.proc)
    if words.pid is None or ticks is None or _user_of(words.pid, vantage.proc) != vantage.user_id:
        return False
    if words.started_ticks:
        return words.started_ticks == ticks
    return vantage.unix_s(ticks) <= since_unix_s + CLOCK_SLACK_S


def _own_processes(vantage: Vantage) -> Iterable[int]:
    for process in vantage.proc.glob("[0-9]*"):
        pid = int(process.name)
        if _user_of(pid, vantage.proc) == vantage.user_id and start_ticks(pid, vantage.proc) is not None:
            yield pid


def _user_of(pid: int, proc: Path) -> int | None:
    """Return whose process it is; the owner of its directory is another where it hides its memory."""
    words = (kernel_file.content(f"{proc}/{pid}/status") or b"").partition(b"\nUid:")[2].split(maxsplit=1)
    return kernel_file.whole_number(words[0]) if words else None


def _open_as(descriptor: Path, names: set[str]) -> Identity | None:
    """Return the identity of an open file; the link alone decides for others, since their file system may hang."""
    try:
        if os.path.basename(os.readlink(descriptor)) not in names:  # noqa: PTH115, PTH119  # thousands of them
            return None
        status = descriptor.stat()
    except OSError:  # closed while we looked
        return None
    return status.st_dev, status.st_ino


def _namespace(proc: Path) -> int:
    try:
        return inode(str((proc / "self" / "ns" / "pid").readlink()))
    except OSError:
        return 0
