"""The supervisor: one loop, one queue, and a thin shell that performs what the table says."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from entrypoint.engine.client import EngineClient
from entrypoint.engine.flag_store import FlagStore
from entrypoint.engine.flags import FlagTable
from entrypoint.engine.log import LogFact
from entrypoint.findings import errors
from entrypoint.plan.plan import Plan
from entrypoint.prove.transcript import CheckResult, CheckSpec
from entrypoint.run import activity, preflight
from entrypoint.run.child import ExitStatus
from entrypoint.run.endings import Disproved, Ending, EngineDied, Refused, SpawnFailed, Stalled, StopAsked
from entrypoint.run.generation import Generation
from entrypoint.run.limits import StopClock
from entrypoint.run.numbers import SIGNS
from entrypoint.run.offload import offload
from entrypoint.run.phase_timer import PhaseTimer
from entrypoint.run.release import ReleaseLimits, release
from entrypoint.run.restarts import RestartBudget
from entrypoint.run.serving import ServingHooks, prove_server, wait_until_idle, wait_until_ready, watch_serving
from entrypoint.run.states import COMING_UP, FINAL, SERVING, TAKING_DOWN, Effect, Happening, State
from entrypoint.run.table import STAY, decide
from entrypoint.run.works import Works
from entrypoint.settings.redaction import Masker
from entrypoint.settings.secrets import Secrets
from entrypoint.tell.board import Board
from entrypoint.tell.events import EventLog
from entrypoint.warm.directories import prepare

KILL_S = 10.0
"""Seconds after which processes that SIGKILL did not end are given up: only the kernel can hold them so long."""
ENDING_STATES = TAKING_DOWN | FINAL | {State.DRAINING}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, and why the run would end with it, where it would."""

    happening: Happening
    ending: Ending | None = None


class Announcer(Protocol):
    """Publishes where clients reach the server."""

    def announce(self) -> None:
        """Clients may come."""

    def withdraw(self) -> None:
        """Clients shall stay away."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run talks to.

    Attributes:
        board: Kept current for the health endpoints.
        events: Where what happens is told.
        masker: Removes secrets.
        store: Where lists of the engine's flags are kept.
        replan: Makes the plan again once the engine has told its flags.
        announcer: Publishes the endpoint.
    """

    board: Board
    events: EventLog
    masker: Masker
    store: FlagStore
    replan: Callable[[FlagTable], Plan]
    announcer: Announcer


class Supervisor:
    """One run on this rank, from the plan to its end.

    Args:
        plan: What to do.
        secrets: The keys.
        around: What it talks to.

    Attributes:
        plan: What is done.
        state: Where the run stands; only ``_enter`` changes it.
        ending: Why it is over, once it is.
        notes: What else a report should say.
    """

    def __init__(self, plan: Plan, secrets: Secrets, around: Surroundings) -> None:
        self.plan = plan
        self.state = State.PLANNED
        self.ending: Ending | None = None
        self.notes: list[str] = []
        self._secrets = secrets
        self._board = around.board
        self._events = around.events
        self._around = around
        self._queue: asyncio.Queue[Event | BaseException] = asyncio.Queue()
        self._works = Works(self._queue.put_nowait)
        self._timer = PhaseTimer(
            plan.settings.deadlines,
            look=self._look,
            on_stall=lambda stalled: self._post(Happening.STALLED, stalled),
        )
        self._budget = RestartBudget(plan.settings.restart)
        self._generation: Generation | None = None
        self._stop_clock: StopClock | None = None
        self._in_flight: int | None = 0
        self._trouble = ""
        self._perform: Mapping[Effect, Callable[[], None]] = {
            Effect.CHECK: lambda: self._works.start("check", self._check(), {State.CHECKING}),
            Effect.WARM: lambda: self._works.start("warm", self._warm(), {State.WARMING}),
            Effect.JOIN_GANG: lambda: self._post(Happening.GANG_AGREED),
            Effect.SPAWN: self._spawn,
            Effect.PROVE: lambda: self._works.start("prove", self._prove(), {State.PROVING}),
            Effect.ANNOUNCE: around.announcer.announce,
            Effect.WITHDRAW: around.announcer.withdraw,
            Effect.WATCH_SERVING: lambda: self._works.start("watch", self._watch_serving(), SERVING),
            Effect.WATCH_DRAIN: lambda: self._works.start("drain", self._watch_drain(), {State.DRAINING}),
            Effect.RELEASE: lambda: self._works.start("release", self._release(), TAKING_DOWN),
            Effect.KILL: self._kill,
            Effect.BACK_OFF: lambda: self._works.start("back-off", self._back_off(), {State.RESTARTING}),
            Effect.FINISH: lambda: None,
        }

    async def run(self) -> None:
        """Run until a final state is reached.

        Raises:
            BaseException: Whatever a background task raised, which is a fault of the supervisor itself.
        """
        self._post(Happening.BEGIN)
        while self.state not in FINAL:
            event = await self._queue.get()
            if isinstance(event, BaseException):
                raise event
            self._apply(event)

    async def close(self) -> None:
        """Stop all work, leave no process behind, and read the engine's last lines."""
        self._works.leave(None)
        self._timer.cancel()
        if self._generation is not None:
            await self._generation.close()
            self._note_log(self._generation)

    @property
    def tail(self) -> tuple[str, ...]:
        """The engine's last lines, secrets masked."""
        return self._generation.tail() if self._generation else ()

    # What comes from outside

    def ask_stop(self, source: str) -> None:
        """Ask for the end: drain, release, stop."""
        if self._stop_clock is None:
            self._stop_clock = StopClock(self._now(), self.plan.settings.drain.timeout_s)
        self._post(Happening.STOP_ASKED, StopAsked(source, self.state))

    def ask_force(self, source: str) -> None:
        """Ask for the end at once."""
        self.notes.append(f"Forced by {source}: requests in flight, if any, were lost.")
        self._post(Happening.FORCE_ASKED, StopAsked(source, self.state))

    def ask_proof(self) -> bool:
        """Ask for another self-check; return whether there is anything to prove."""
        if self.state is not State.HELD:
            return False
        self._post(Happening.PROVE_AGAIN)
        return True

    # The loop's own

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _post(self, happening: Happening, ending: Ending | None = None) -> None:
        self._queue.put_nowait(Event(happening, ending))

    def _apply(self, event: Event) -> None:
        happening = self._judged(event.happening)
        transition = decide(self.state, happening)
        if transition == STAY:
            return
        if transition.to is not None:
            if self.ending is None and transition.to in ENDING_STATES:
                self.ending = event.ending
            self._enter(transition.to, happening)
        for effect in transition.effects:
            self._perform[effect]()

    def _judged(self, happening: Happening) -> Happening:
        """Return a death as one worth a retry, where it is: a server that never was ready would only die again."""
        ready_once = self._generation is not None and self._generation.was_ready
        if happening is Happening.ENGINE_DIED and ready_once and self._budget.allows(self._now()):
            return Happening.ENGINE_DIED_RETRY
        return happening

    def _enter(self, state: State, happening: Happening) -> None:
        before, self.state = self.state, state
        self._works.leave(state)
        reasons = () if state is State.READY else (self._trouble,) if state is State.DEGRADED else (state.value,)
        ended = self._board.enter(state, ready=state in SERVING, reasons=reasons, now=time.time())
        tell = self._events.error if state in {State.FAILED, State.ABORTING} else self._events.tell
        lasted = None if ended is None or ended.lasted_s is None else round(ended.lasted_s, 3)
        tell(state.value, happening=happening.value, before=before.value, before_lasted_s=lasted)
        self._timer.enter(state)

    # Before the engine

    async def _check(self) -> None:
        environment = self.plan.engine_environment(self._secrets)
        outcome = await preflight.check(self.plan, environment, self._around.store, self._around.replan)
        self.plan = outcome.plan
        self._board.findings = tuple(
            {"rule": finding.rule, "severity": finding.severity, "message": finding.message, "remedy": finding.remedy}
            for finding in outcome.findings
        )
        for note in outcome.notes:
            self._events.tell("note", text=note)
        for finding in outcome.findings:
            self._events.warn("finding", rule=finding.rule, severity=finding.severity, message=finding.message)
        refusing = errors(outcome.findings)
        if refusing:
            self._post(Happening.CHECK_REFUSED, Refused(refusing))
        else:
            self._post(Happening.CHECKED)

    async def _warm(self) -> None:
        findings = await offload(lambda: prepare(self.plan.caches), "warm")
        if findings:
            self._post(Happening.WARM_FAILED, Refused(findings))
        else:
            self._post(Happening.WARMED)

    # The engine

    def _spawn(self) -> None:
        number = 0 if self._generation is None else self._generation.number + 1
        key = self._secrets.api_key
        client = EngineClient.open(
            f"http://{_bracketed(self.plan.local_host)}:{self.plan.engine_port}",
            api_key=key.get_secret_value() if key else None,
        )
        generation = self._generation = Generation(number, self._now(), client)
        self._board.generation, self._board.engine = number, generation.numbers.values
        try:
            generation.start(
                self.plan.argv,
                self.plan.engine_environment(self._secrets),
                listener=_Listener(self, generation),
                on_facts=lambda facts: self._on_facts(generation, facts),
                log_path=self.plan.log_path,
                log_max_bytes=self.plan.settings.logs.max_bytes,
                masker=self._around.masker,
            )
        except OSError as error:
            self._post(Happening.SPAWN_FAILED, SpawnFailed("the warden", str(error)))
            return
        self._works.start("ready", self._wait_until_ready(generation), COMING_UP)

    async def _wait_until_ready(self, generation: Generation) -> None:
        await wait_until_ready(generation, lambda: self._post(Happening.PORT_OPEN))
        self._post(Happening.ENGINE_READY)

    def _on_facts(self, generation: Generation, facts: list[LogFact]) -> None:
        if generation is not self._generation:
            return
        progressed = generation.take(facts)
        if progressed:
            self._timer.progressed(generation.numbers.progress)
            self._board.progress = generation.numbers.progress
        self._note_log(generation)
        for fact in facts:
            if fact.kind in SIGNS:
                self._post(SIGNS[fact.kind])

    def _note_log(self, generation: Generation) -> None:
        self._board.log = {
            "path": str(self.plan.log_path),
            "dropped_lines": generation.dropped_lines,
            "write_error": generation.write_error,
        }

    def _look(self) -> activity.Activity | None:
        generation = self._generation
        return activity.look(generation.child.warden_pid) if generation and generation.started else None

    def on_exited(self, generation: Generation, status: ExitStatus | None) -> None:
        """Take the news that the engine's main process ended."""
        self._events.tell("engine-exited", status=str(status), generation=generation.number)
        if self.state is State.DRAINING and self._in_flight:
            self.notes.append(f"The engine ended while it drained: {self._in_flight} requests in flight were lost.")
        died = EngineDied(self.state, status, generation.number, self._now() - generation.started_at)
        self._post(Happening.ENGINE_DIED, died)

    def on_spawn_failed(self, error: OSError) -> None:
        """Take the news that the engine's command could not be executed."""
        self._post(Happening.SPAWN_FAILED, SpawnFailed(self.plan.argv[0], error.strerror or str(error)))

    def on_gone(self) -> None:
        """Take the news that no process of the engine is left."""
        self._post(Happening.ENGINE_GONE)

    # Proof and service

    @property
    def _spec(self) -> CheckSpec:
        prove = self.plan.settings.prove
        return CheckSpec(
            model=self.plan.served_name,
            tools=prove.tools,
            reasoning=prove.reasoning,
            max_tokens=prove.max_tokens,
            timeout_s=prove.timeout_s,
            cached_tokens="enable_cache_report" in self.plan.meaning,
        )

    async def _prove(self) -> None:
        generation = self._generation
        if generation is None:
            raise RuntimeError("there is no engine to prove")
        if not self.plan.settings.prove.enabled:
            self._events.warn("unproven", message="the self-check is turned off by prove.enabled")
            self._proved(generation)
            return
        result = await prove_server(generation.client, self._spec)
        self._on_check(result)
        if result.passed:
            self._proved(generation)
        elif self.plan.settings.prove.on_failure == "hold":
            self._post(Happening.DISPROVED_HOLD)
        else:
            self._post(Happening.DISPROVED, Disproved(result))

    def _proved(self, generation: Generation) -> None:
        generation.was_ready = True
        self._post(Happening.PROVED)

    def _on_check(self, result: CheckResult) -> None:
        self._board.self_check = {**result.to_json(), "unix_s": time.time()}
        tell = self._events.tell if result.passed else self._events.error
        tell("self-check", passed=result.passed, seconds=round(result.seconds, 3), summary=result.summary())

    async def _watch_serving(self) -> None:
        generation = self._generation
        if generation is None:
            raise RuntimeError("there is no engine to watch")
        prove = self.plan.settings.prove
        hooks = ServingHooks(
            on_load=lambda load: setattr(self._board, "load", load),
            on_check=self._on_check,
            on_trouble=self._on_trouble,
            on_well=lambda: self._post(Happening.WELL),
        )
        await watch_serving(generation.client, self._spec if prove.enabled else None, prove.every_s, hooks)

    def _on_trouble(self, trouble: str) -> None:
        self._trouble = trouble
        self._post(Happening.UNWELL)

    # The end of the engine

    async def _watch_drain(self) -> None:
        generation, clock = self._generation, self._stop_clock
        if generation is None or clock is None:
            raise RuntimeError("there is nothing to drain")
        try:
            await asyncio.wait_for(
                wait_until_idle(generation.client, self._on_in_flight), clock.for_requests_s(self._now())
            )
        except TimeoutError:
            self._post(Happening.DRAIN_EXPIRED)
        else:
            self._post(Happening.IDLE)

    def _on_in_flight(self, in_flight: int | None) -> None:
        self._in_flight = in_flight
        self._board.progress = "requests in flight: " + ("unknown" if in_flight is None else str(in_flight))

    async def _release(self) -> None:
        generation, clock = self._generation, self._stop_clock
        drain = self.plan.settings.drain
        if generation is None:
            raise RuntimeError("there is no engine to release")
        finish_s = clock.for_everything_s(self._now()) if clock else drain.timeout_s
        limits = ReleaseLimits(begin_s=drain.release_start_s, finish_s=finish_s)
        step = await release(generation, limits, idle=self._in_flight == 0)
        self._events.tell("engine-killed", why=step.value)
        if self._in_flight:
            self.notes.append(f"{self._in_flight} requests in flight were not finished within drain.timeout_s.")
        await self._expect_gone()

    def _kill(self) -> None:
        generation = self._generation
        if generation is None or not generation.started:
            self._post(Happening.ENGINE_GONE)
            return
        generation.child.kill()
        self._works.start("kill", self._expect_gone(), TAKING_DOWN | {State.RESTARTING})

    async def _expect_gone(self) -> None:
        await asyncio.sleep(KILL_S)
        self.notes.append(f"Processes of the engine are still there {KILL_S:.0f} s after SIGKILL: the kernel holds them.")
        self._post(Happening.RELEASE_EXPIRED)

    async def _back_off(self) -> None:
        pause_s = self._budget.spend(self._now())
        self._board.restarts = self._budget.total
        if self._generation is not None:
            await self._generation.close()
        self._events.tell("restart", number=self._budget.total, pause_s=pause_s)
        await asyncio.sleep(pause_s)
        self._post(Happening.RESTART_DUE)


class _Listener:
    """Passes on what happens to one generation's processes, as long as it is the current one."""

    def __init__(self, supervisor: Supervisor, generation: Generation) -> None:
        self._supervisor = supervisor
        self._generation = generation

    def on_started(self, pid: int) -> None:
        """Nothing waits for this: the log and the port tell more."""

    def on_spawn_failed(self, error: OSError) -> None:
        """The command could not be executed."""
        self._supervisor.on_spawn_failed(error)

    def on_exited(self, status: ExitStatus | None) -> None:
        """The main process ended."""
        self._supervisor.on_exited(self._generation, status)

    def on_gone(self) -> None:
        """No process is left."""
        self._supervisor.on_gone()


def _bracketed(host: str) -> str:
    """Return an address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
