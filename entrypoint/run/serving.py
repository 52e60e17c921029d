"""Talking to the engine: until it is ready, while it serves, until it is idle, and to prove it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from entrypoint.engine.client import EngineClient, EngineLoad, Readiness, Unavailable
from entrypoint.prove.parsers import check
from entrypoint.prove.transcript import CheckResult, CheckSpec, ConfiguredParsers
from entrypoint.run.generation import Generation
from entrypoint.run.hang import HangClock, Stillness

LOOK_S = 1.0
"""Seconds between looks at a port whose opening the log should announce: a fallback for changed wording."""
SERVING_LOOK_S = 5.0
SILENT_LOOKS = 3
"""Looks without an answer before an engine is called silent: one may fall into a long prefill."""
DRAIN_LOOK_S = 0.1
IDLE_LOOKS = 2
"""Looks in a row that must find the engine idle: a request may be between two of its queues."""


async def wait_until_ready(
    generation: Generation, is_its_own: Callable[[], Awaitable[bool]], on_open: Callable[[], None]
) -> bool:
    """Return True when the engine says that it is ready, and False when somebody else answers on its port.

    Args:
        generation: The engine.
        is_its_own: Returns whether it is the engine who listens there.
        on_open: Called when its port is found open.
    """
    opened = False
    while True:
        generation.nudge.clear()
        readiness = await generation.client.ready()
        if readiness in {Readiness.WARMING, Readiness.READY} and not opened:
            if not await is_its_own():
                return False
            opened = True
            if readiness is Readiness.WARMING:
                on_open()
        if readiness is Readiness.READY:
            return True
        try:
            await asyncio.wait_for(generation.nudge.wait(), LOOK_S)
        except TimeoutError:
            continue


async def prove_server(client: EngineClient, spec: CheckSpec) -> CheckResult:
    """Run the self-check against a running engine."""
    info = await client.model_info()
    configured = None if isinstance(info, Unavailable) else ConfiguredParsers.from_model_info(info)
    return await check(client.http, spec, configured)


async def wait_until_idle(client: EngineClient, on_load: Callable[[int | None], None]) -> None:
    """Return when no request is in flight, or when the engine cannot say.

    Args:
        client: The engine.
        on_load: Given the number in flight at each look; None where the engine cannot say.
    """
    idle_looks = 0
    before: EngineLoad | None = None
    while idle_looks < IDLE_LOOKS:
        load = await client.load()
        if isinstance(load, Unavailable):
            on_load(None)
            return
        in_flight = _in_flight(load, before)
        on_load(in_flight)
        if in_flight is not None:
            idle_looks = idle_looks + 1 if in_flight == 0 else 0
        before = load
        if idle_looks < IDLE_LOOKS:
            await asyncio.sleep(DRAIN_LOOK_S)


def _in_flight(load: EngineLoad, before: EngineLoad | None) -> int | None:
    """Return how many requests are in flight; None where the schedulers have not said so since the look before.

    One that is in its first step, such as a long prefill, still tells what it told when it was idle.
    """
    in_flight = load.running + load.waiting
    stale = before is not None and load.snapshot_unix_s is not None and load.snapshot_unix_s == before.snapshot_unix_s
    return None if stale and in_flight == 0 else in_flight


@dataclass(frozen=True, slots=True)
class ServingHooks:
    """Who is told what while the engine serves.

    Attributes:
        on_load: Given each look at its queues.
        on_check: Given each canary's result.
        on_trouble: Given what is wrong, in one sentence.
        on_well: Called when nothing is.
        on_hang: Given how long nothing has moved; nothing is looked at after that.
        signs: Returns how many signs of work the log has shown.
    """

    on_load: Callable[[dict[str, Any]], None]
    on_check: Callable[[CheckResult], None]
    on_trouble: Callable[[str], None]
    on_well: Callable[[], None]
    on_hang: Callable[[Stillness], None]
    signs: Callable[[], int]


async def watch_serving(
    client: EngineClient, spec: CheckSpec | None, every_s: float, clock: HangClock, hooks: ServingHooks
) -> None:
    """Look at a serving engine, and repeat the self-check when it is idle; returns only when it hangs.

    Args:
        client: The engine.
        spec: What a canary asks for; None runs none.
        every_s: Seconds between canaries; 0 runs none.
        clock: Judges whether it hangs.
        hooks: Who is told.
    """
    loop = asyncio.get_running_loop()
    canary_at = loop.time() + every_s
    canary_failed = False
    silent = 0
    while True:
        await asyncio.sleep(min(SERVING_LOOK_S, every_s or SERVING_LOOK_S))
        load = await client.load()
        silent = silent + 1 if isinstance(load, Unavailable) else 0
        if isinstance(load, EngineLoad):
            hooks.on_load(asdict(load))
        still = clock.look(loop.time(), load, hooks.signs())
        if still is not None:
            hooks.on_hang(still)
            return
        if silent >= SILENT_LOOKS and isinstance(load, Unavailable):
            hooks.on_trouble(f"the engine does not answer: {load.detail}")
            continue
        idle = isinstance(load, EngineLoad) and load.running + load.waiting == 0
        if spec is not None and every_s and idle and loop.time() >= canary_at:
            result = await prove_server(client, spec)
            hooks.on_check(result)
            canary_failed = not result.passed
            canary_at = loop.time() + every_s
            if canary_failed:
                hooks.on_trouble(f"the canary failed: {result.failures[0].message}")
        if not canary_failed and not silent:
            hooks.on_well()
