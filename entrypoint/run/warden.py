"""The warden: a small process between supervisor and engine that leaves no process behind.

It is started as a script (``python -I -S warden.py CONTROL_FD OUTPUT_FD OOM_SCORE_ADJ -- COMMAND…``), has one thread
and imports next to nothing. It starts the engine, adopts every orphan of it (child subreaper), and kills them all when
the engine's main process ends, when it is told to, or when the supervisor's end of the control socket closes, which
the kernel sees to whatever happened to the supervisor. Should the warden itself be killed, the engine's main process
gets SIGKILL by its parent-death signal; that signal follows the forking *thread*, so a single thread forks here.

Protocol: the supervisor sends single bytes (``T`` SIGTERM to the main process, ``S`` SIGSTOP, ``C`` SIGCONT, ``K`` kill
everything); the warden answers in lines (``started PID``, ``failed ERRNO``, ``exited WAIT_STATUS``, ``gone``).
"""

import ctypes
import os
import resource
import select
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a scheduler of jobs may send to *every* descendant of a task. The engine inherits that they are
ignored, so that they end no process of it behind the supervisor's back; SGLang's main process installs its own
SIGTERM handler once it serves, and still drains."""
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores for itself and a command expects at their default."""
MAIN_SIGNALS = {ord("T"): signal.SIGTERM, ord("S"): signal.SIGSTOP, ord("C"): signal.SIGCONT}

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, argument: int | bytes) -> None:
    """Set an attribute of this process; raise OSError when the kernel refuses."""
    value = ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def descendants(root: int, proc: str = "/proc") -> list[int]:
    """Return the process ids below a process, from one look at /proc; those that vanish meanwhile are left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            with open(f"{proc}/{name}/stat", "rb") as stat:
                parent = int(stat.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    pending = [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def given_environment() -> dict[bytes, bytes]:
    """Return the environment as it was given: where the locale is C, Python adds LC_CTYPE to its own."""
    with open("/proc/self/environ", "rb") as environ:
        entries = [entry.partition(b"=") for entry in environ.read().split(b"\0") if entry]
    return {name: value for name, _, value in entries}


class Warden:
    """The one engine that this process looks after.

    Args:
        control_fd: Socket to the supervisor.
        output_fd: Pipe that takes the engine's standard output and error.
        oom_score_adj: What the kernel's out-of-memory killer adds to the engine's score.
    """

    def __init__(self, control_fd: int, output_fd: int, oom_score_adj: int) -> None:
        self._control_fd = control_fd
        self._output_fd = output_fd
        self._oom_score_adj = oom_score_adj
        self._main_pid = 0
        self._main_alive = False

    def start(self, command: Sequence[str]) -> None:
        """Fork and exec the engine's main process in its own process group."""
        for fd in (self._control_fd, self._output_fd):
            os.set_inheritable(fd, False)
        warden_pid = os.getpid()
        self._main_pid = os.fork()
        if self._main_pid == 0:
            self._become(command, warden_pid)
        self._main_alive = True
        os.close(self._output_fd)
        self._tell(f"started {self._main_pid}")

    def _become(self, command: Sequence[str], warden_pid: int) -> None:
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != warden_pid:  # the warden died before the line above could matter
                os._exit(127)
            os.setpgid(0, 0)
            for number in (*RESTORED, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            self._raise_oom_score()
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (self._output_fd, 1), (self._output_fd, 2)):
                os.dup2(source, target)
            environment = given_environment()
            os.execvpe(command[0], list(command), environment)  # noqa: S606  # starting the engine is the purpose
        except OSError as error:
            self._tell(f"failed {error.errno}")
        finally:
            os._exit(127)

    def _raise_oom_score(self) -> None:
        """Offer this process to the out-of-memory killer; only more than it is already, which nobody is denied."""
        try:
            with open("/proc/self/oom_score_adj", "r+") as score:
                if int(score.read()) < self._oom_score_adj:
                    score.write(str(self._oom_score_adj))
        except OSError:  # a sandbox without this file: the engine serves as well without it
            return

    def watch(self) -> None:
        """Return when no process of the engine is left."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        poller = select.poll()
        poller.register(self._control_fd, select.POLLIN)
        poller.register(wake_read, select.POLLIN)
        self._reap()
        while self._main_alive:
            for fd, _ in poller.poll():
                if fd == wake_read:
                    os.read(wake_read, 4096)
                    self._reap()
                elif not self._obey(self._listen()):
                    self.slay()
        self.slay()
        self._tell("gone")

    def _listen(self) -> bytes:
        """Return commands, or nothing when the supervisor is gone."""
        try:
            return os.read(self._control_fd, 64)
        except ConnectionResetError:  # how its end reads when it died before it had read everything from here
            return b""

    def _obey(self, commands: bytes) -> bool:
        """Act on commands; return False when everything shall end, which is also what a closed socket means."""
        for command in commands:
            if command not in MAIN_SIGNALS:
                return False
            if self._main_alive:
                os.kill(self._main_pid, MAIN_SIGNALS[command])
        return bool(commands)

    def _reap(self) -> bool:
        """Collect every process that has ended; return whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._note_death(pid, status)

    def _note_death(self, pid: int, status: int) -> None:
        if pid == self._main_pid:
            self._main_alive = False
            self._tell(f"exited {status}")

    def slay(self) -> None:
        """Kill everything below this process and wait until nothing is left.

        A process that forks while it is killed leaves a child that is adopted here, so each death is followed by
        another look.
        """
        while self._reap():
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            self._note_death(pid, status)

    def _tell(self, line: str) -> None:
        try:
            os.write(self._control_fd, line.encode() + b"\n")
        except OSError:  # the supervisor is gone: there is nobody to tell, and the work here is the same
            return


def main(arguments: Sequence[str]) -> None:
    """Look after one engine from its start until nothing of it is left."""
    control_fd, output_fd, oom_score_adj = (int(text) for text in arguments[:3])
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_NAME, b"engine-warden")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    warden = Warden(control_fd, output_fd, oom_score_adj)
    warden.start(arguments[4:])
    warden.watch()


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # nothing is buffered, and the supervisor waits for this exit
