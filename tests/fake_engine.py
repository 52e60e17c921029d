"""A real process that speaks SGLang 0.5.23's lines and endpoints, has its children, and fails as a test asks it to.

It is started as SGLang is, ``python -m sglang.launch_server …`` with ``tests/fake_site`` on PYTHONPATH. What it prints
and answers was recorded from SGLang; what it does on signals follows SGLang's source: before the warm-up SIGTERM has
its default action, afterwards it drains, and a dead child takes the whole engine along.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from fake_http import Server, Serving
from fake_log import capturing_bar, loading_bar, log, say
from fake_switches import Board, Phase, Switches
from sglang.srt.server_args import ServerArgs

PR_SET_PDEATHSIG = 1
CHILDREN = ("sglang::scheduler", "sglang::detokenizer")
EAT = signal.SIGRTMIN
"""Tells a child to take memory; no scheduler of jobs sends it."""
BITE_MIB = 4
INIT_DIED = (
    "Traceback (most recent call last):\n"
    '  File "/opt/sglang/launch_server.py", line 80, in <module>\n'
    "    run_server(server_args)\n"
    "RuntimeError: Rank 0 scheduler died during initialization (exit code: {code}). If exit code is -9 (SIGKILL), a "
    "common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
)
SCHEDULER_EXCEPTION = (
    "Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/opt/sglang/srt/managers/scheduler.py", line 6368, in run_scheduler_process\n'
    "    scheduler.run_event_loop()\n"
    "{words}\n"
)
LEAKED = (
    "nanobind: this is likely caused by a reference counting issue in the binding code.\n"
    "See https://nanobind.readthedocs.io/en/latest/refleaks.html"
)
"""What the real one's libraries leave at its exit: a line without an end, torn by the next message."""


class ChildDiedError(Exception):
    """A child of this process has ended.

    Args:
        name: Its name.
        pid: Its process id.
        code: Its exit code, negative for a signal.
    """

    def __init__(self, name: str, pid: int, code: int) -> None:
        super().__init__(name, pid, code)
        self.name = name
        self.pid = pid
        self.code = code


class Engine:
    """One start of the engine.

    Args:
        arguments: Its flags.
        board: Where its switches are.
        start: Which start it is, the first one being 0.
    """

    def __init__(self, arguments: argparse.Namespace, board: Board, start: int) -> None:
        self._arguments = arguments
        self._board = board
        self._switches = board.read(start)
        self._serving = Serving(arguments, lambda: board.read(start))
        self._children: dict[str, int] = {}
        self._asked_to_stop = threading.Event()

    def run(self) -> int:
        """Go through all phases and return the exit status of a clean stop."""
        try:
            self._start()
            self._load()
            self._capture()
            self._go_up()
            self._warm_up()
            self._serve()
            return self._stop()
        except ChildDiedError as death:
            self._follow(death)

    # Phases

    def _start(self) -> None:
        say("/opt/sglang/launch_server.py:71: UserWarning: 'python -m sglang.launch_server' is still supported, but ")
        say("'sglang serve' is the recommended entrypoint.\n  warnings.warn(\n")
        self._enter(Phase.START, self._switches.start_s)
        log(f"server_args={vars(self._arguments)!r}")
        signal.pthread_sigmask(signal.SIG_BLOCK, {EAT})  # it waits until a child has grown ears
        self._children = {name: spawn(name, self._switches) for name in CHILDREN}
        if self._switches.orphan:
            leave_orphan(line_every_s=self._switches.orphan_line_every_s)
        signal.signal(signal.SIGCHLD, self._on_child)

    def _load(self) -> None:
        log("Init parallel begin.")
        self._enter(Phase.INIT, 0)
        log("Init parallel ends. elapsed=0.02 s")
        log("Memory baseline taken. mem usage=0.00 GB")
        log("Load weight begin. avail mem=21.80 GB")
        loading_bar(0, self._switches.shards)
        self._enter(Phase.LOAD, 0)
        for shard in range(1, self._switches.shards + 1):
            time.sleep(self._switches.load_s / self._switches.shards)
            loading_bar(shard, self._switches.shards)
        say("\n")
        log("Load weight end. elapsed=0.03 s, type=Qwen3ForCausalLM, avail mem=21.80 GB, mem usage=0.00 GB.")
        tokens = self._serving.pool_tokens
        log(f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: 0.00 GB, V size: 0.00 GB")
        log("Memory pool end. avail mem=21.76 GB")

    def _capture(self) -> None:
        if not self._switches.capture_s:
            self._enter(Phase.CAPTURE, 0)
            return
        batches = (8, 4, 2, 1)
        log("Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail mem=21.76 GB")
        self._enter(Phase.CAPTURE, 0)
        for done, batch in enumerate(batches):
            capturing_bar(batch, done, len(batches))
            time.sleep(self._switches.capture_s / len(batches))
        capturing_bar(batches[-1], len(batches), len(batches))
        say("\n")
        log(
            f"Capture target decode CUDA graph end. bs={list(reversed(batches))}, "
            f"elapsed={self._switches.capture_s:.2f} s, mem usage=0.06 GB, avail mem=21.70 GB."
        )

    def _go_up(self) -> None:
        context = self._arguments.context_length or self._serving.pool_tokens
        log(
            f"max_total_num_tokens={self._serving.pool_tokens}, chunked_prefill_size=4096, max_prefill_tokens=16384, "
            f"max_running_requests={self._serving.requests_most}, context_len={context}, available_cpu_mem=21.76 GB"
        )
        log("Engine startup timings (s): load_weight=0.03, kv_cache_allocation=0.42, scheduler_e2e=1.53")
        server = Server((self._arguments.host, self._arguments.port), self._serving)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        log(f"INFO:     Started server process [{os.getpid()}]")
        log("INFO:     Waiting for application startup.")
        log("INFO:     Application startup complete.")
        log(f"INFO:     Uvicorn running on http://{self._arguments.host}:{self._arguments.port} (Press CTRL+C to quit)")
        self._enter(Phase.UP, 0)

    def _warm_up(self) -> None:
        signal.signal(signal.SIGTERM, self._on_sigterm)
        log('INFO:     127.0.0.1:45006 - "GET /model_info HTTP/1.1" 200 OK')
        self._enter(Phase.WARMUP, self._switches.warmup_s)
        log('INFO:     127.0.0.1:45022 - "POST /generate HTTP/1.1" 200 OK')
        log('INFO:     127.0.0.1:45038 - "POST /freeze_gc HTTP/1.1" 200 OK')
        self._serving.ready = True
        log("The server is fired up and ready to roll!")

    def _serve(self) -> None:
        say(self._switches.says)
        for number in range(self._switches.flood_lines):
            say(f"flood {number} ".ljust(self._switches.flood_line_bytes - 1, "x") + "\n")
        if self._switches.huge_line_bytes:
            say("y" * (self._switches.huge_line_bytes - 1) + "\n")
        self._board.note_printed()
        if self._switches.closes_output:
            close_output()
        self._enter(Phase.READY, 0)
        self._asked_to_stop.wait()

    def _enter(self, phase: Phase, lasts_s: float) -> None:
        """Be in a phase for a while, unless the switches say that this is where it ends or hangs."""
        if self._switches.eats_at == phase:
            self._eat()
        if self._switches.hangs_at == phase:
            while True:
                signal.pause()
        while self._switches.spins_at == phase:
            pass
        if self._switches.ends_at == phase and not self._asked_to_stop.wait(self._switches.ends_after_s):
            self._end(serving=phase is Phase.READY)
        time.sleep(lasts_s)

    def _eat(self) -> None:
        """Have one process take memory from now on."""
        if self._switches.eats_who == "main":
            threading.Thread(target=eat, args=[self._switches.eats_mib_per_s], daemon=True).start()
        else:
            os.kill(self._children[f"sglang::{self._switches.eats_who}"], EAT)

    # Endings

    def _end(self, *, serving: bool) -> None:
        if self._switches.last_words:
            say(self._switches.last_words + "\n")
        who, _, how = self._switches.ends_by.rpartition(" ")
        if who == "exit":
            os._exit(int(how))
        if who == "scheduler" and how == "exception":
            log(
                SCHEDULER_EXCEPTION.format(words=self._switches.last_words or "RuntimeError: the fake was told to fail")
            )
            self._die_of_sigquit(serving=serving)
        victim = self._children["sglang::scheduler"] if who == "scheduler" else os.getpid()
        os.kill(victim, signal.Signals[how])
        while True:  # until the handler of SIGCHLD raises
            signal.pause()

    def _follow(self, death: ChildDiedError) -> NoReturn:
        """End as the real one does when one of its children has ended."""
        if not self._serving.ready:
            say(INIT_DIED.format(code=death.code) + "\n")
            self._kill_children()
            os._exit(1)
        name = {"sglang::scheduler": "scheduler_0", "sglang::detokenizer": "detokenizer"}[death.name]
        log(
            f"Subprocess {name} (pid={death.pid}) crashed with exit code {death.code}. "
            "Triggering SIGQUIT for cleanup..."
        )
        self._die_of_sigquit(serving=True)

    def _die_of_sigquit(self, *, serving: bool) -> NoReturn:
        if serving:
            log("SIGQUIT received. signum=3, frame=None. It usually means one child failed.")
        else:
            log("Received sigquit from a child process. It usually means the child failed.")
        self._kill_children()
        os.kill(os.getpid(), signal.SIGKILL)
        while True:
            signal.pause()

    def _stop(self) -> int:
        """Drain, let the schedulers release their memory, and stop."""
        while True:
            time.sleep(self._switches.drain_poll_s)
            requests = self._serving.requests()
            log(
                f"Gracefully exiting... Remaining number of requests {len(requests)}. "
                f"Remaining requests remaining_rids={requests}."
            )
            if not requests and self._switches.drains:
                break
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        time.sleep(self._switches.release_s)
        if not self._switches.children_stay:
            self._kill_children()
        say(LEAKED)
        log(f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=False, pid={os.getpid()}")
        log("INFO:     Shutting down")
        log("INFO:     Waiting for application shutdown.")
        log("INFO:     Application shutdown complete.")
        log(f"INFO:     Finished server process [{os.getpid()}]")
        return self._switches.stop_status

    # Signals and children

    def _on_sigterm(self, _signum: int, _frame: FrameType | None) -> None:
        log("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self._serving.draining = True
        self._asked_to_stop.set()

    def _on_child(self, _signum: int, _frame: FrameType | None) -> None:
        for name, pid in self._children.items():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._children[name]
                raise ChildDiedError(name, pid, os.waitstatus_to_exitcode(status))

    def _kill_children(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in self._children.values():
            os.kill(pid, signal.SIGKILL)


def spawn(name: str, switches: Switches) -> int:
    """Fork a child that does nothing yet; it dies with this process, as the real ones do, unless it stays."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        if not switches.children_stay:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before we said so
                os._exit(0)
        live_on(name, deaf=switches.children_stay, eats_mib_per_s=switches.eats_mib_per_s)
    return pid


def eat(mib_per_s: float) -> NoReturn:
    """Take memory for good, a bite at a time."""
    eaten = []
    while True:
        eaten.append(b"x" * (BITE_MIB << 20))
        time.sleep(BITE_MIB / mib_per_s)


def leave_orphan(*, line_every_s: float) -> None:
    """Fork twice and leave a process that has its own session and a parent further up."""
    between = os.fork()
    if between == 0:
        os.setsid()
        if os.fork() == 0:
            live_on("sglang::orphan", line_every_s=line_every_s)
        os._exit(0)
    os.waitpid(between, 0)


def live_on(name: str, *, line_every_s: float = 0, deaf: bool = True, eats_mib_per_s: float = 0) -> NoReturn:
    """Be a process of this name that waits to be killed, or to be told to take memory."""
    Path("/proc/self/comm").write_text(name)
    if deaf:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    while True:
        if line_every_s:
            time.sleep(line_every_s)
            log(f"{name} is still here")
        else:
            signal.sigwait({EAT})
            eat(eats_mib_per_s)


def close_output() -> None:
    """Close standard output and error; what is printed from now on goes nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the flags; those of --config come first, so that the command line wins. Unknown ones are ignored."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    given = list(words)
    if "--config" in given:
        place = given.index("--config")
        given = [*config_words(Path(given[place + 1])), *given[:place], *given[place + 2 :]]
    arguments, _ = parser.parse_known_args(given)
    return arguments


def config_words(file: Path) -> list[str]:
    """Return a configuration file as words of a command line; of YAML it knows ``key: "value"`` only."""
    pairs = (line.split(": ", 1) for line in file.read_text().splitlines() if line.strip())
    return [word for key, value in pairs for word in (f"--{key.replace('_', '-')}", str(json.loads(value)))]


def main(words: Sequence[str]) -> int:
    """Be the engine."""
    arguments = parse(words)
    board = Board.from_environment()
    start = len(board.starts())
    board.record({"pid": os.getpid(), "argv": sys.argv})
    return Engine(arguments, board, start).run()
