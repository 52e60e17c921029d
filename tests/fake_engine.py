"""A stand-in for SGLang's main process: its lines, its endpoints, its helpers, and faults on demand.

It is for faults that cannot be had from the real engine. What it prints is what SGLang 0.5.23 prints, word for word.
The environment variable ``FAKE_ENGINE`` holds a JSON object of ``Faults``.
"""

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sglang.srt.server_args import ServerArgs

PR_SET_NAME = 15
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zurich"}}\n</tool_call>'
THOUGHT = "The user asks."
ANSWER = "Hello from the tiny model."


@dataclass(frozen=True)
class Faults:
    """What shall go wrong, and how long everything takes.

    Attributes:
        start_s, load_s, capture_s, warmup_s: Length of each phase; no capture when it is 0.
        bar_s: Pause between two states of the loading bar.
        bars: States of the loading bar.
        die_at: Phase at whose beginning the main process dies: arguments, starting, loading, capturing, warmup, serving.
        exit_code: With this code; negative for a signal.
        serve_s: Seconds of serving before it dies at serving.
        last_words: Lines that it prints before it dies.
        hang_at: Phase at whose beginning everything stands still.
        spin_at: Phase at whose beginning it computes for ever without a word.
        never_ready: /ready answers 503 for ever.
        control: A JSON file that is read at each request and overrides ``answers`` and ``request_s``.
        answers: good, prose (the call as text), no-thought, rejects (400), fails (500).
        request_s: How long a chat completion takes.
        flood_lines: Lines printed without pause once it serves.
        huge_line_bytes: Length of one line printed once it serves.
        say: Text printed at the start.
        stubborn: Helpers ignore SIGTERM and outlive their parent.
        orphan: A helper that has left the process group and the session, and whose parent is gone.
        drain_look_s: How often it looks for SIGTERM; SGLang: 5.
        never_drains: It goes on serving after SIGTERM.
    """

    start_s: float = 0.05
    load_s: float = 0.05
    capture_s: float = 0.0
    warmup_s: float = 0.05
    bar_s: float = 0.0
    bars: int = 2
    die_at: str = ""
    exit_code: int = 1
    serve_s: float = 0.0
    last_words: list[str] = field(default_factory=list)
    hang_at: str = ""
    spin_at: str = ""
    never_ready: bool = False
    control: str = ""
    answers: str = "good"
    request_s: float = 0.0
    flood_lines: int = 0
    huge_line_bytes: int = 0
    say: str = ""
    stubborn: bool = False
    orphan: bool = False
    drain_look_s: float = 0.05
    never_drains: bool = False


def say(message: str) -> None:
    """Print a line as SGLang does, on stderr with its time."""
    sys.stderr.write(time.strftime("[%Y-%m-%d %H:%M:%S] ") + message + "\n")
    sys.stderr.flush()


class Engine:
    """The main process.

    Args:
        arguments: Its command line, parsed.
        faults: What shall go wrong.
    """

    def __init__(self, arguments: argparse.Namespace, faults: Faults) -> None:
        self.arguments = arguments
        self.faults = faults
        self.ready = False
        self.running = 0
        self.lock = threading.Lock()
        self.stopping = False
        self.helpers: list[subprocess.Popen[bytes]] = []

    # Phases

    def run(self) -> None:
        self.reach("arguments")
        if self.faults.say:
            sys.stderr.write(self.faults.say + "\n")
        say(f"server_args={vars(self.arguments)!r}")
        self.start_helpers()
        self.reach("starting")
        time.sleep(self.faults.start_s)
        say("Init parallel begin.")
        say("Init parallel ends. elapsed=0.02 s")
        say("Load weight begin. avail mem=21.80 GB")
        self.reach("loading")
        self.load()
        self.capture()
        say(
            "max_total_num_tokens=8192, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=128, "
            "context_len=4096, available_cpu_mem=21.76 GB"
        )
        self.serve()

    def reach(self, phase: str) -> None:
        """Begin a phase, unless it is the one where something goes wrong."""
        if phase == self.faults.hang_at:
            time.sleep(1e6)
        while phase == self.faults.spin_at:
            pass
        if phase == self.faults.die_at:
            time.sleep(self.faults.serve_s)
            self.die()

    def die(self) -> None:
        for line in self.faults.last_words:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        if self.faults.exit_code < 0:
            signal.signal(-self.faults.exit_code, signal.SIG_DFL) if -self.faults.exit_code != signal.SIGKILL else None
            os.kill(os.getpid(), -self.faults.exit_code)
            time.sleep(1e6)
        os._exit(self.faults.exit_code)

    def load(self) -> None:
        bars = self.faults.bars
        for done in range(bars + 1):
            bar = f"\rMulti-thread loading shards: {done * 100 // bars:3d}% Completed | {done}/{bars} [00:00<?, ?it/s]"
            sys.stderr.write(bar)
            sys.stderr.flush()
            time.sleep(self.faults.bar_s)
        time.sleep(self.faults.load_s)
        sys.stderr.write("\n")
        say("Load weight end. elapsed=0.03 s, type=Qwen3ForCausalLM, avail mem=21.80 GB, mem usage=0.00 GB.")
        say("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 8192, K size: 0.00 GB, V size: 0.00 GB")
        say("Memory pool end. avail mem=21.76 GB")

    def capture(self) -> None:
        if not self.faults.capture_s and "capturing" not in (self.faults.die_at, self.faults.hang_at):
            return
        say("Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail mem=21.70 GB")
        self.reach("capturing")
        time.sleep(self.faults.capture_s)
        say("Capture target decode CUDA graph end. bs=[1, 2], elapsed=0.10 s, mem usage=0.10 GB, avail mem=21.60 GB.")

    def serve(self) -> None:
        server = ThreadingHTTPServer((self.arguments.host, self.arguments.port), handler_of(self))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        say("INFO:     Application startup complete.")
        say(f"INFO:     Uvicorn running on http://{self.arguments.host}:{self.arguments.port} (Press CTRL+C to quit)")
        signal.signal(signal.SIGTERM, self.on_sigterm)
        self.reach("warmup")
        time.sleep(self.faults.warmup_s)
        if not self.faults.never_ready:
            self.ready = True
            say("The server is fired up and ready to roll!")
        self.shout()
        self.reach("serving")
        while not self.stopping:
            time.sleep(self.faults.drain_look_s)
        self.drain()

    def shout(self) -> None:
        if self.faults.huge_line_bytes:
            sys.stderr.write("x" * self.faults.huge_line_bytes + "\n")
        for number in range(self.faults.flood_lines):
            sys.stderr.write(f"[2026-10-20 10:00:12] Decode batch, #running-req: {number}, #token: 100\n")
        sys.stderr.flush()

    # The end

    def on_sigterm(self, _number: int, _frame: Any) -> None:
        self.stopping = True

    def drain(self) -> None:
        self.ready = False
        while self.running or self.faults.never_drains:
            say(f"Gracefully exiting... Remaining number of requests {max(self.running, 1)}. Remaining requests [].")
            time.sleep(self.faults.drain_look_s)
        say("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
        for helper in self.helpers:
            helper.kill()
        os._exit(0)

    # Helpers

    def start_helpers(self) -> None:
        for name in ("sglang::schedul", "sglang::detoken"):
            self.helpers.append(self.helper(name))
        if self.faults.orphan:
            subprocess.run(
                [*self.helper_command("fake-orphan")[:-1], "leave"], check=True, start_new_session=True, close_fds=True
            )

    def helper(self, name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.helper_command(name), stdin=subprocess.DEVNULL)

    def helper_command(self, name: str) -> list[str]:
        mode = "stubborn" if self.faults.stubborn else "mortal"
        return [sys.executable, "-S", str(Path(__file__).resolve()), "--helper", name, mode]


def be_helper(name: str, mode: str) -> None:
    """Be a scheduler or detokenizer: a process that does nothing and dies with its parent, unless it is stubborn."""
    libc = ctypes.CDLL(None)
    if mode == "leave":
        if os.fork():
            os._exit(0)
        os.setsid()
    elif mode == "mortal":
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    time.sleep(1e6)


def handler_of(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:  # noqa: N802  # the library's name
            path = self.path.partition("?")[0]
            if path in ("/ready", "/health", "/ping"):
                self.answer(200 if engine.ready else 503, {})
            elif not self.authorized():
                self.answer(401, {"error": "Unauthorized"})
            elif path == "/model_info":
                parsers = ("reasoning_parser", "tool_call_parser")
                self.answer(200, {name: getattr(engine.arguments, name) for name in parsers})
            elif path == "/v1/models":
                self.answer(200, {"object": "list", "data": [{"id": engine.arguments.served_model_name}]})
            elif path == "/v1/loads":
                self.answer(200, loads(engine))
            else:
                self.answer(404, {"detail": "Not Found"})

        def do_POST(self) -> None:  # noqa: N802  # the library's name
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with engine.lock:
                engine.running += 1
            try:
                self.complete(body)
            finally:
                with engine.lock:
                    engine.running -= 1

        def complete(self, body: dict[str, Any]) -> None:
            control = json.loads(Path(engine.faults.control).read_text()) if engine.faults.control else {}
            time.sleep(control.get("request_s", engine.faults.request_s))
            answers = control.get("answers", engine.faults.answers)
            if not self.authorized():
                self.answer(401, {"error": "Unauthorized"})
            elif answers == "rejects":
                self.answer(400, {"object": "error", "message": "Tools cannot be empty", "code": 400})
            elif answers == "fails":
                self.answer(500, {"object": "error", "message": "Internal server error", "code": 500})
            elif body.get("stream"):
                self.stream(message_of(body, answers))
            else:
                self.answer(200, completion(message_of(body, answers)))

        def authorized(self) -> bool:
            key = engine.arguments.api_key
            return not key or self.headers.get("Authorization") == f"Bearer {key}"

        def answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def stream(self, message: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for chunk in (*chunks(message), "[DONE]"):
                self.wfile.write(f"data: {chunk}\n\n".encode())
            self.close_connection = True

    return Handler


def loads(engine: Engine) -> dict[str, Any]:
    rank = {
        "dp_rank": 0,
        "num_running_reqs": engine.running,
        "num_waiting_reqs": 0,
        "num_used_tokens": 0,
        "max_total_num_tokens": 8192,
        "token_usage": 0.0,
        "gen_throughput": 0.0,
        "cache_hit_rate": 0.0,
    }
    return {"version": "0.5.23", "loads": [rank]}


def message_of(body: dict[str, Any], answers: str) -> dict[str, Any]:
    """Return the assistant's message for a request."""
    thought = None if answers == "no-thought" else THOUGHT
    if not body.get("tools"):
        return {"role": "assistant", "content": ANSWER, "reasoning_content": thought, "tool_calls": None}
    if answers == "prose":
        return {"role": "assistant", "content": CALL, "reasoning_content": thought, "tool_calls": None}
    call = {
        "id": "call_0",
        "index": 0,
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Zurich"}'},
    }
    return {"role": "assistant", "content": "", "reasoning_content": thought, "tool_calls": [call]}


USAGE = {
    "prompt_tokens": 40,
    "completion_tokens": 20,
    "total_tokens": 60,
    "prompt_tokens_details": {"cached_tokens": 16},
}


def finish_of(message: dict[str, Any]) -> str:
    return "tool_calls" if message["tool_calls"] else "stop"


def completion(message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": finish_of(message)}
    return {"id": "0", "object": "chat.completion", "model": "tiny", "choices": [choice], "usage": USAGE}


def chunks(message: dict[str, Any]) -> list[str]:
    """Return a message as the events of a stream."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if message["reasoning_content"]:
        deltas.append({"reasoning_content": message["reasoning_content"]})
    if message["content"]:
        deltas.append({"content": message["content"]})
    if message["tool_calls"]:
        deltas.append({"tool_calls": message["tool_calls"]})
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_of(message)}]})
    events.append({"choices": [], "usage": USAGE})
    return [json.dumps({"id": "0", "object": "chat.completion.chunk", "model": "tiny", **event}) for event in events]


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line, and the keys from the configuration file that it names."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    arguments = parser.parse_args(argv)
    if arguments.config:
        for line in Path(arguments.config).read_text().splitlines():
            name, _, value = line.partition(": ")
            setattr(arguments, name.replace("-", "_"), json.loads(value))
    arguments.served_model_name = arguments.served_model_name or arguments.model_path
    return arguments


def main(argv: list[str]) -> None:
    faults = Faults(**json.loads(os.environ.get("FAKE_ENGINE", "{}")))
    Engine(parse(argv), faults).run()


if __name__ == "__main__":
    be_helper(*sys.argv[2:4])
