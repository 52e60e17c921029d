"""How fast the log pipe is, beside a loop that copies the same bytes into a file and looks at nothing."""

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from entrypoint.run.logpipe import READ_BYTES, LogPipe
from entrypoint.settings.redaction import Masker

LINES = 1_000_000
ROUNDS = 5
REQUIRED_LINES_PER_S = 500_000

PREFILL = (
    b"[2026-12-01 05:02:17 TP0] Prefill batch, #new-seq: 1, #new-token: 4096, #cached-token: 120000, token usage: 0.41"
    b", #running-req: 19, #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 2211.40\n"
)
DECODE = (
    b"[2026-12-01 05:02:17 TP0] Decode batch, #running-req: 20, #token: 390211, token usage: 0.97, cuda graph: True, "
    b"gen throughput (token/s): 271.04, #queue-req: 0\n"
)
ACCESS = b'[2026-12-01 05:02:17] INFO:     127.0.0.1:45022 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
MODEL_INFO = b'[2026-12-01 05:02:17] INFO:     127.0.0.1:45006 - "GET /model_info HTTP/1.1" 200 OK\n'
SHORT = b"[2026-12-01 05:02:17] Health check passed.\n"
MIX = (PREFILL + DECODE * 2 + ACCESS * 12 + SHORT * 5) * 50 + MODEL_INFO
MIX_LINES = MIX.count(b"\n")


@dataclass(frozen=True, slots=True)
class LogScanMeasurement:
    """Medians over the rounds."""

    copy_lines_per_s: float
    pipe_lines_per_s: float
    bytes_per_line: float

    @property
    def ratio(self) -> float:
        return self.pipe_lines_per_s / self.copy_lines_per_s


def measure(lines: int = LINES, rounds: int = ROUNDS) -> LogScanMeasurement:
    """Run both ways in turn, so that a busy machine slows both."""
    repeats = max(1, lines // MIX_LINES)
    copied, piped = [], []
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(rounds):
            copied.append(_timed(_copy, Path(directory, "copy.log"), repeats))
            piped.append(_timed(_pipe, Path(directory, "pipe.log"), repeats))
    count = repeats * MIX_LINES
    return LogScanMeasurement(count / statistics.median(copied), count / statistics.median(piped), len(MIX) / MIX_LINES)


def _timed(consume: Callable[[int, Path], None], path: Path, repeats: int) -> float:
    read_fd, write_fd = os.pipe()
    engine = threading.Thread(target=_engine, args=(write_fd, repeats))
    begin = time.perf_counter()
    engine.start()
    consume(read_fd, path)
    engine.join()
    seconds = time.perf_counter() - begin
    path.unlink()
    return seconds


def _engine(write_fd: int, repeats: int) -> None:
    with os.fdopen(write_fd, "wb", buffering=0) as pipe:
        for _ in range(repeats):
            pipe.write(MIX)


def _copy(read_fd: int, path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while data := os.read(read_fd, READ_BYTES):
            file.write(data)
    os.close(read_fd)


def _pipe(read_fd: int, path: Path) -> None:
    masker = Masker(["sk-0123456789abcdef", "hf_0123456789abcdefghijklmnopqrstuvwx"])
    pipe = LogPipe(read_fd, path, masker=masker, on_facts=lambda _: None)
    pipe.start()
    if not (pipe.join(60) and pipe.close(60)) or pipe.dropped_lines:
        raise RuntimeError(f"{pipe.dropped_lines} lines did not reach the file")


def main() -> int:
    result = measure()
    print(f"copy loop: {result.copy_lines_per_s:12,.0f} lines/s of {result.bytes_per_line:.0f} bytes")
    print(f"log pipe:  {result.pipe_lines_per_s:12,.0f} lines/s, {result.ratio:.2f} of the copy loop")
    fast_enough = result.pipe_lines_per_s >= REQUIRED_LINES_PER_S
    if not fast_enough:
        print(f"too slow: {REQUIRED_LINES_PER_S:,} lines/s are required", file=sys.stderr)
    return 0 if fast_enough else 1


if __name__ == "__main__":
    sys.exit(main())
