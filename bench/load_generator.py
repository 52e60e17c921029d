"""An open-loop load: requests at a fixed rate, in slices to one server after the other, until stdin closes.

Usage: ``python -m bench.load_generator RATE SLICE_S PORT…``. Prints the latencies per port as JSON. A request's latency
counts from the moment at which it was meant to be sent: a server that stalls pays for every request that had to wait.
"""

import asyncio
import contextlib
import json
import os
import re
import selectors
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CONNECTIONS = 32
"""Per server. More requests than this wait for a connection, and their latency counts the wait."""
LAST_ANSWERS_S = 5.0
EXPECTED = (b"200", b"503")
"""Statuses of a server that answers, ready or not."""
PRIORITY = -10
"""Before the servers, where that is permitted: their wait for a processor is measured, not this process's own."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass
class Target:
    """A server under load.

    Attributes:
        port: Where it listens.
        idle: Connections without a request.
        waiting: When requests were meant to be sent for which no connection was free.
        latencies_s: Of the requests answered.
        outstanding: Requests not answered yet.
        quiet: Set while there are none.
        failures: What went wrong.
    """

    port: int
    idle: deque["Connection"] = field(default_factory=deque)
    waiting: deque[float] = field(default_factory=deque)
    latencies_s: list[float] = field(default_factory=list)
    outstanding: int = 0
    quiet: asyncio.Event = field(default_factory=asyncio.Event)
    failures: list[str] = field(default_factory=list)

    async def connect(self) -> None:
        """Open all connections."""
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            await loop.create_connection(lambda: Connection(self, loop), "127.0.0.1", self.port)

    def request(self, intended_at: float) -> None:
        """Send a request, or let it wait for a connection."""
        self.outstanding += 1
        self.quiet.clear()
        if self.idle:
            self.idle.popleft().send(intended_at)
        else:
            self.waiting.append(intended_at)

    def answered(self, connection: "Connection", latency_s: float) -> None:
        """Note an answer; its connection takes the next request."""
        self.outstanding -= 1
        self.latencies_s.append(latency_s)
        if self.waiting:
            connection.send(self.waiting.popleft())
            return
        self.idle.append(connection)
        if not self.outstanding:
            self.quiet.set()

    def data(self) -> dict[str, Any]:
        """Return the result."""
        return {"latencies_s": self.latencies_s, "unanswered": self.outstanding, "failures": self.failures[:5]}


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self, target: Target, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop
        self._request = f"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n\r\n".encode()
        self._received = b""
        self._intended_at = 0.0
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.WriteTransport):
            raise TypeError(f"{transport} cannot be written to")
        self._transport = transport
        self._target.idle.append(self)

    def send(self, intended_at: float) -> None:
        if self._transport is None:
            raise RuntimeError("not connected")
        self._intended_at = intended_at
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        if not end or (length and len(body) < int(length[1])):
            return
        if length is None or head.split()[1] not in EXPECTED:
            self._target.failures.append(head.decode(errors="replace"))
        self._received = b""
        self._target.answered(self, self._loop.time() - self._intended_at)

    def connection_lost(self, exc: Exception | None) -> None:
        self._target.failures.append(f"a connection was closed: {exc}")
        with contextlib.suppress(ValueError):
            self._target.idle.remove(self)


async def load(rate: float, slice_s: float, targets: Sequence[Target]) -> None:
    """Send requests until stdin closes, and wait for the last answers."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, stop.set)
    for target in targets:
        await target.connect()
    began_at = loop.time()
    number = 0
    while not stop.is_set():
        intended_at = began_at + number / rate
        await asyncio.sleep(intended_at - loop.time())
        targets[int(number / rate / slice_s) % len(targets)].request(intended_at)
        number += 1
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_ANSWERS_S):
            for target in targets:
                if target.outstanding:
                    await target.quiet.wait()


def _precise_loop() -> asyncio.AbstractEventLoop:
    """Return a loop whose timers are exact to microseconds: epoll's, the default, are rounded up to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def main(arguments: Sequence[str]) -> None:
    """Load the servers that the command line names."""
    rate, slice_s = float(arguments[0]), float(arguments[1])
    targets = [Target(int(port)) for port in arguments[2:]]
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    with asyncio.Runner(loop_factory=_precise_loop) as runner:
        runner.run(load(rate, slice_s, targets))
        results = [target.data() for target in targets]
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
