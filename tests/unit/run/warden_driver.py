"""A supervisor of a few lines, to be killed: starts a command behind a warden and prints what it is told.

Usage: warden_driver.py MARK (listening | deaf) COMMAND…. A deaf one never reads what its warden says.
"""

import asyncio
import os
import signal
import sys

from engine_lives import MARK

from entrypoint.exit_status import ExitStatus
from entrypoint.run import orphans
from entrypoint.run.child import EngineChild


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Told:
    """Prints what it is told, a line each."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def on_started(self, pid: int) -> None:
        tell("started", pid)

    def on_spawn_failed(self, error: OSError) -> None:
        tell("failed", error.errno)

    def on_exited(self, status: ExitStatus | None) -> None:
        tell("exited", status)

    def on_gone(self) -> None:
        tell("gone")
        self.gone.set()


async def main(mark: str, ears: str, command: list[str]) -> None:
    orphans.adopt()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, orphans.reap)
    told = Told()
    environment = {"PATH": os.environ["PATH"], MARK: mark}
    child = EngineChild(command, environment, os.dup(sys.stderr.fileno()), told)
    tell("warden", child.warden_pid)
    loop.add_signal_handler(signal.SIGUSR1, child.kill)
    if ears == "deaf":
        while True:
            signal.pause()
    await told.gone.wait()
    tell("left", orphans.reap(), orphans.slay())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
