"""The engine as a child: started behind its warden, signalled through it, never waited for in a blocking call."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from entrypoint.exit_status import ExitStatus
from entrypoint.run import orphans

WARDEN = Path(__file__).with_name("warden.py")
OOM_SCORE_ADJ = 500
"""Raised for the engine, so that the kernel's out-of-memory killer takes it and leaves the one who can explain."""
SLAY_AGAIN_S = 0.05
"""Seconds between looks for processes that a killed warden left."""
SIGTERM_BIT = 1 << (signal.SIGTERM - 1)


class ChildListener(Protocol):
    """Who is told what happens to the engine's processes; called in the event loop."""

    def on_started(self, pid: int) -> None:
        """The engine's main process runs."""

    def on_spawn_failed(self, error: OSError) -> None:
        """The command could not be executed."""

    def on_exited(self, status: ExitStatus | None) -> None:
        """The main process ended; None when its warden was killed and nobody saw how."""

    def on_gone(self) -> None:
        """No process of the engine is left."""


class EngineChild:
    """One engine behind its warden.

    Args:
        argv: The engine's command.
        environment: Its whole environment.
        output_fd: Write end of the pipe for its output; closed here once the warden has it.
        listener: Who is told.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], output_fd: int, listener: ChildListener
    ) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._told = b""
        self._exited = False
        self._gone = False
        self.pid: int | None = None
        with ExitStack() as for_warden, ExitStack() as unless_started:
            for_warden.callback(os.close, output_fd)
            self._control, theirs = socket.socketpair()
            for_warden.enter_context(theirs)
            unless_started.enter_context(self._control)
            self._control.setblocking(False)
            self._warden = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(WARDEN), str(theirs.fileno()), str(output_fd)),
                    *(str(OOM_SCORE_ADJ), "--", *argv),
                ],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), output_fd),
                start_new_session=True,
            )
            unless_started.pop_all()
        orphans.own(self._warden.pid)
        self._loop.add_reader(self._control, self._hear)

    @property
    def warden_pid(self) -> int:
        """Process id of the warden, below which every process of the engine lives."""
        return self._warden.pid

    @property
    def gone(self) -> bool:
        """Whether it was told that no process of the engine is left."""
        return self._gone

    def terminate(self) -> None:
        """Send SIGTERM to the engine's main process."""
        self._say(b"T")

    def freeze(self) -> None:
        """Stop the main process where it stands, so that what it has not begun it does not begin."""
        self._say(b"S")

    def thaw(self) -> None:
        """Let a frozen main process go on."""
        self._say(b"C")

    def kill(self) -> None:
        """Kill every process of the engine."""
        self._say(b"K")

    def handles_sigterm(self) -> bool:
        """Return whether the main process has its own SIGTERM handler, which SGLang installs once it serves.

        Before that it is started with SIGTERM ignored and holds nothing that only it could release.
        """
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return False
        caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
        return bool(int(caught, 16) & SIGTERM_BIT)

    def _say(self, command: bytes) -> None:
        if not self._gone:
            try:
                self._control.send(command)
            except (BrokenPipeError, ConnectionResetError):
                return  # the warden is ending: its last words are on their way to _hear

    def _hear(self) -> None:
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        *lines, self._told = (self._told + data).split(b"\n")
        for line in lines:
            self._act_on(line.decode())
        if not data and not self._gone:
            self._warden_lost()

    def _act_on(self, line: str) -> None:
        word, _, argument = line.partition(" ")
        match word:
            case "started":
                self.pid = int(argument)
                self._listener.on_started(self.pid)
            case "failed":
                self._listener.on_spawn_failed(OSError(int(argument), os.strerror(int(argument))))
            case "exited":
                self._exited = True
                self._listener.on_exited(ExitStatus.from_wait_status(int(argument)))
            case "gone":
                self._finish()

    def _warden_lost(self) -> None:
        """Take over from a warden that was killed: as subreaper the supervisor inherits what it left."""
        self._loop.remove_reader(self._control)
        self._reap_warden()
        if not self._exited:
            self._exited = True
            self._listener.on_exited(None)
        self._slay_orphans()

    def _slay_orphans(self) -> None:
        """Kill until a look finds nothing more: a process that forks while it is killed leaves another."""
        if orphans.slay():
            self._loop.call_later(SLAY_AGAIN_S, self._slay_orphans)
        else:
            self._finish()

    def _finish(self) -> None:
        self._gone = True
        self._loop.remove_reader(self._control)
        self._control.close()
        self._reap_warden()
        self._listener.on_gone()

    def _reap_warden(self) -> None:
        self._warden.wait()  # it has said its last word or closed its socket by dying: this takes no time
        orphans.disown(self._warden.pid)
