"""Who uses a tree of caches: each run holds a lock on it, which the kernel releases when the run is dead.

The lock is flock's: it belongs to the kernel and not to a number in a file, so that it tells of runs in other
containers of the node, too, whose process ids mean nothing here. Beside it each run leaves a file that says who it is.
"""

import fcntl
import json
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode
from entrypoint.warm.lock_owner import Vantage, start_ticks

LOCK = "in-use"
USERS = "users"
PATIENCE_S = 30.0
"""How long another run may clear what the dead have left; it takes milliseconds."""
_ATTEMPTS = 10
"""So often a tree may be removed while a run waits to use it."""
_PRIVATE = 0o700
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class User:
    """One run that uses a tree.

    Attributes:
        host: Its host's name.
        pid: Its process id, in its own namespace.
        pid_namespace: Inode of that namespace; 0 where the kernel does not tell.
        started_ticks: When the process began, in clock ticks since the host was started.
        started_unix_s: The same in seconds since 1970.
        job: Its Slurm job; empty outside of one.
        step: Its Slurm step; empty outside of one.
        run_directory: Where it writes its report.
    """

    host: str
    pid: int
    pid_namespace: int
    started_ticks: int
    started_unix_s: float
    job: str = ""
    step: str = ""
    run_directory: str = ""

    @property
    def file_name(self) -> str:
        """The name of its file, which no two runs of a tree share."""
        return f"{self.host}-{self.pid}-{self.started_ticks}.json"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A tree that is not to be trusted: its name can be guessed, and somebody may have been faster.

    Attributes:
        path: Its root.
        reason: What is wrong with it: "belongs to user 1000".
    """

    path: Path
    reason: str

    def finding(self) -> Finding:
        """Return what a user reads."""
        return Finding(
            "cache-tree-foreign",
            Severity.ERROR,
            f"The directory {self.path} for caches {self.reason}: others could put code into it that the engine runs.",
            "Choose a directory of your own with caches.local.",
            "caches.local",
            ExitCode.DIRECTORY_UNUSABLE,
        )


def this_run(environ: Mapping[str, str], run_directory: Path, vantage: Vantage, pid: int) -> User:
    """Return what this run writes down of itself.

    Args:
        environ: Its environment.
        run_directory: Where it writes its report.
        vantage: Where it runs.
        pid: Its process id.
    """
    ticks = start_ticks(pid, vantage.proc) or 0
    return User(
        vantage.host,
        pid,
        vantage.pid_namespace,
        ticks,
        vantage.unix_s(ticks),
        environ.get("SLURM_JOB_ID", ""),
        environ.get("SLURM_STEP_ID", ""),
        str(run_directory),
    )


def enter(root: Path, tree: Path, user: User, patience_s: float = PATIENCE_S) -> "TreeUse | Foreign":
    """Return a run's use of a tree, or why it must keep out of it.

    Nothing is held yet: ``TreeUse.alone`` takes the lock.

    Args:
        root: The directory of all trees of this user, made where it is missing.
        tree: The tree, which is below the root or is the root.
        user: The run.
        patience_s: How long it waits while another run clears the tree.

    Raises:
        OSError: A directory or file cannot be made.
    """
    root.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        root.mkdir(_PRIVATE)
    foreign = _foreign(root)
    if foreign is not None:
        return foreign
    # What is made below needs no look of its own: nobody else may write in the root.
    (tree / USERS).mkdir(parents=True, exist_ok=True)
    return TreeUse(tree, user, patience_s)


def _foreign(root: Path) -> Foreign | None:
    status = root.lstat()
    if stat.S_ISLNK(status.st_mode):
        return Foreign(root, "is a link")
    if not stat.S_ISDIR(status.st_mode):
        return Foreign(root, "is no directory")
    if status.st_uid != os.geteuid():
        return Foreign(root, f"belongs to user {status.st_uid}")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        return Foreign(root, f"can be written by others (its mode is {stat.S_IMODE(status.st_mode):o})")
    return None


class TreeUse:
    """One run's use of a tree, from ``alone`` until it is closed or everything that holds its descriptor is dead.

    Args:
        tree: The tree.
        user: The run.
        patience_s: How long it waits while another run clears the tree.

    Raises:
        OSError: The lock's file cannot be opened.
    """

    def __init__(self, tree: Path, user: User, patience_s: float) -> None:
        self._tree = tree
        self._user = user
        self._patience_s = patience_s
        self._handle = self._open()

    def fileno(self) -> int:
        """Return the descriptor that holds the lock; a process that inherits it keeps the tree in use."""
        return self._handle

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Yield whether no other living run uses the tree; as long as the block lasts, none can begin to.

        False also where the file system has no locks. After the block the tree is shared, and stays in use. Nothing of
        this run may build meanwhile: where others are there, the lock is let go for a moment.

        Raises:
            OSError: The lock's file has been removed and cannot be made anew.
        """
        alone = self._take()
        self._register()
        try:
            yield alone
            if alone:
                self._forget_the_dead()
        finally:
            if alone:
                self._share()

    def others(self) -> tuple[User, ...]:
        """Return the other runs that have registered; also the dead, until somebody was alone."""
        return tuple(user for path in sorted(self._files()) if (user := _read(path)) not in (None, self._user))

    def close(self) -> None:
        """Use the tree no longer."""
        with suppress(OSError):
            self._own_file.unlink()
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _own_file(self) -> Path:
        return self._tree / USERS / self._user.file_name

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._tree / LOCK, flags, 0o600)

    def _take(self) -> bool:
        """Take the lock, shared where others have it; return whether it is this run's alone."""
        for _ in range(_ATTEMPTS):
            alone = self._flock(fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not alone:
                self._share()
            if self._is_current():
                return alone
            # Somebody has removed the tree meanwhile, so that what was locked is no longer what others find.
            os.close(self._handle)
            (self._tree / USERS).mkdir(parents=True, exist_ok=True)
            self._handle = self._open()
        return False

    def _is_current(self) -> bool:
        try:
            there = (self._tree / LOCK).lstat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._handle))

    def _share(self) -> None:
        """Take the shared lock; where another run holds its own for too long, that is left to a thread."""
        if self._flock(fcntl.LOCK_SH | fcntl.LOCK_NB):
            return
        waiter = threading.Thread(target=self._flock, args=(fcntl.LOCK_SH,), daemon=True)
        waiter.start()
        waiter.join(self._patience_s)

    def _flock(self, operation: int) -> bool:
        """Lock; return whether that was done: others may hold it, and a file system may know no locks."""
        try:
            fcntl.flock(self._handle, operation)
        except OSError:
            return False
        return True

    def _register(self) -> None:
        """Write down who this is: help for people, so that a full disk does not matter."""
        unfinished = self._own_file.with_suffix(".tmp")
        with suppress(OSError):
            unfinished.write_text(json.dumps(asdict(self._user)), encoding="utf-8")
            unfinished.replace(self._own_file)

    def _forget_the_dead(self) -> None:
        for path in self._files():
            user = _read(path)
            if path != self._own_file and (user is None or user.host == self._user.host):
                with suppress(OSError):
                    path.unlink()

    def _files(self) -> list[Path]:
        return list((self._tree / USERS).glob("*.json"))


def _read(path: Path) -> User | None:
    try:
        return User(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # gone, torn, or another version's
        return None
