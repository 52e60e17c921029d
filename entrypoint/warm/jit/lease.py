"""The lease: of all that want the same kernels at once, one builds and the others wait.

It saves work, and nothing depends on it: two builders at once would build the same, and publishing adds or keeps.
A holder shows that it lives by the time of its file; ages are taken from the file server's own clock, never from two
machines' clocks.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from entrypoint.warm.lock_owner import PROC, Vantage, start_ticks

FILE = "lease.json"
PROGRESS_FILE = "lease-progress.json"
STALE_S = 30.0
"""Age of its file from which a holder is taken for dead."""
RENEW_S = 1.0
LARGEST_BYTES = 1 << 16
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease.

    Attributes:
        word: Its own and nobody else's.
        host: Its machine.
        pid: Its process id there.
        pid_namespace: Inode of the namespace in which that number counts.
        started_ticks: When that process was started, in clock ticks since the boot.
        job: The Slurm job; None outside of one.
    """

    word: str
    host: str
    pid: int
    pid_namespace: int
    started_ticks: int
    job: str | None = None

    def __str__(self) -> str:
        """Return the holder as people name it."""
        return f"pid {self.pid} on {self.host}" + (f" (job {self.job})" if self.job else "")


def myself(job: str | None = None, proc: Path = PROC) -> Holder:
    """Return this process as a holder."""
    pid, here = os.getpid(), Vantage.here(proc)
    return Holder(secrets.token_hex(8), here.host, pid, here.pid_namespace, start_ticks(pid, proc) or 0, job)


UNREADABLE = Holder("unreadable", "a host that cannot be told", 0, 0, 0)


class Lease:
    """A lease on building for one tree.

    Args:
        tree: The tree; must exist and be writable.
        me: Who asks.
        proc: Where the kernel tells about processes.
    """

    def __init__(self, tree: Path, me: Holder, proc: Path = PROC) -> None:
        self._tree = tree
        self._me = me
        self._proc = proc
        self.progress = ""
        """How far we are, for those who wait: told with the next renewal."""

    def take(self) -> Holder | None:
        """Take the lease; return None where it is ours now, else who holds it.

        Raises:
            OSError: The tree cannot be written.
        """
        staged = self._stage(asdict(self._me))
        try:
            holder = None
            for _ in range(ATTEMPTS):  # again, where a dead holder's was taken away or another gave his back
                with contextlib.suppress(FileExistsError):
                    os.link(staged, self._tree / FILE)
                    return None
                holder = self.holder()
                if holder is not None and not self._take_away_if_dead(holder, staged):
                    return holder
            return holder or UNREADABLE
        finally:
            staged.unlink(missing_ok=True)

    def holder(self) -> Holder | None:
        """Return who holds the lease; None where nobody does."""
        return _read(self._tree / FILE)

    def renew(self) -> bool:
        """Show that the holder lives, and how far it is; return whether the lease is still ours."""
        if self.holder() != self._me:
            return False
        os.utime(self._tree / FILE)
        staged = self._stage({"word": self._me.word, "progress": self.progress})
        staged.replace(self._tree / PROGRESS_FILE)
        return True

    def give_back(self) -> None:
        """Let the next one build."""
        if self.holder() == self._me:
            (self._tree / FILE).unlink(missing_ok=True)
            (self._tree / PROGRESS_FILE).unlink(missing_ok=True)

    def heard(self) -> str:
        """Return how far the holder is; empty where it does not say."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads((self._tree / PROGRESS_FILE).read_text(encoding="utf-8"))
            return str(document["progress"])
        return ""

    def probe(self) -> None:
        """Write where the lease would lie.

        Raises:
            OSError: It cannot be written there.
        """
        self._stage(asdict(self._me)).unlink()

    def _stage(self, document: Mapping[str, object]) -> Path:
        staged = self._tree / f".tmp-lease-{self._me.word}-{secrets.token_hex(4)}"
        staged.write_text(json.dumps(document), encoding="utf-8")
        return staged

    def _take_away_if_dead(self, holder: Holder, just_written: Path) -> bool:
        """Take a dead holder's lease away; return whether it is gone."""
        if not self._is_dead(holder, just_written):
            return False
        aside = self._tree / f".tmp-lease-{self._me.word}-{secrets.token_hex(4)}"
        try:
            (self._tree / FILE).rename(aside)
        except FileNotFoundError:
            return True
        if _read(aside) not in {holder, None}:  # another was quicker, and it is his that we hold
            with contextlib.suppress(FileExistsError):
                os.link(aside, self._tree / FILE)
        aside.unlink(missing_ok=True)
        return True

    def _is_dead(self, holder: Holder, just_written: Path) -> bool:
        here = (self._me.host, self._me.pid_namespace)
        if self._me.pid_namespace and (holder.host, holder.pid_namespace) == here:
            return start_ticks(holder.pid, self._proc) != holder.started_ticks
        with contextlib.suppress(OSError):
            return just_written.stat().st_mtime - (self._tree / FILE).stat().st_mtime > STALE_S
        return False


def _read(path: Path) -> Holder | None:
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(LARGEST_BYTES))
        return Holder(**document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return UNREADABLE
