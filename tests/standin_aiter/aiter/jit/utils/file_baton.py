"""A lock that is a file, as aiter has it since July 2026: it says who made it.

Stale is a lock whose process is dead on this host, and one that says nothing and is older than ten seconds. One of
another host is waited for without end.
"""

import logging
import multiprocessing
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

SILENT_FOR_S = 10.0
logger = logging.getLogger("aiter")


class FileBaton:
    def __init__(self, lock_file_path: str, wait_seconds: float = 0.2) -> None:
        self.path = Path(lock_file_path)
        self.wait_seconds = wait_seconds
        self.handle: int | None = None

    def try_acquire(self) -> bool:
        try:
            self.handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return False
        os.write(self.handle, f"{os.getpid()}\n{socket.gethostname()}\n".encode())
        return True

    def wait(self) -> bool:
        """Return True when the holder has released it, False when it was stale and has been removed."""
        process = multiprocessing.current_process().name
        logger.info("[pid=%s pname=%s] waiting for baton release at %s", os.getpid(), process, self.path)
        while self.path.exists():
            if self._is_stale() and self._break():
                logger.warning("[pid=%s] broke stale lock at %s (dead/abandoned holder)", os.getpid(), self.path)
                return False
            time.sleep(self.wait_seconds)
        return True

    def release(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None
        with suppress(FileNotFoundError):
            self.path.unlink()

    def _is_stale(self) -> bool:
        try:
            lines = self.path.read_text().splitlines()
            age_s = time.time() - self.path.stat().st_mtime
        except OSError:
            return False
        if len(lines) < 2 or not lines[0].isdigit():
            return age_s > SILENT_FOR_S
        return lines[1] == socket.gethostname() and not _lives(int(lines[0]))

    def _break(self) -> bool:
        """Remove the lock; a helper sees to it that one waiter alone does."""
        helper = self.path.with_name(self.path.name + ".steal")
        try:
            handle = os.open(helper, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return False
        try:
            stale = self._is_stale()
            if stale:
                self.path.unlink(missing_ok=True)
            return stale
        finally:
            os.close(handle)
            helper.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
