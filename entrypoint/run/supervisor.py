"""The supervisor: one loop, one queue, and a thin shell that performs what the table says."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from entrypoint.findings import Finding, error_finding, errors, without_ignored
from entrypoint.outcome import SuperviseError
from entrypoint.plan.budget.compare import compare
from entrypoint.plan.plan import Plan
from entrypoint.plan.render import finding_data
from entrypoint.plan.rules.after_start import judge_started
from entrypoint.prove.transcript import CheckResult, CheckSpec, FailureKind
from entrypoint.run import preflight
from entrypoint.run.cache_keeper import CacheKeeper
from entrypoint.run.endings import Disproved, Ending, EngineDied, Hung, MemoryLow, Refused, Stalled, StopAsked
from entrypoint.run.hang import HangClock, Stillness
from entrypoint.run.keeper import Keeper
from entrypoint.run.limits import StopClock
from entrypoint.run.low_memory import low_memory_finding
from entrypoint.run.memory_history import LowMemory
from entrypoint.run.phase_timer import PhaseTimer
from entrypoint.run.release import ReleaseLimits
from entrypoint.run.restarts import RestartBudget, worth_a_restart
from entrypoint.run.serving import ServingHooks, prove_server, wait_until_idle, watch_serving
from entrypoint.run.states import COMING_UP, FINAL, SERVING, TAKING_DOWN, Effect, Happening, State
from entrypoint.run.surroundings import Surroundings
from entrypoint.run.table import STAY, decide
from entrypoint.run.verdict import judge
from entrypoint.run.works import Works
from entrypoint.verdict.evidence import LogEvidence

NEWS_OF_DEATH_S = 5.0
"""Seconds for the news to come that an engine has died whose connection broke: its death is the reason then, and not
the check that it could not pass."""
WORTH_A_RETRY = {Happening.ENGINE_DIED: Happening.ENGINE_DIED_RETRY, Happening.HUNG: Happening.HUNG_RETRY}
"""What happens instead where another start is allowed and can help."""
FAILING = frozenset({State.FAILED, State.ABORTING, State.RESTARTING})
ENDING_STATES = TAKING_DOWN | FINAL | {State.DRAINING}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, and why the run would end with it, where it would."""

    happening: Happening
    ending: Ending | None = None


class Supervisor:
    """One run on this rank, from the plan to its end.

    Args:
        plan: What to do.
        around: What the run talks to.

    Attributes:
        plan: What is done; made anew once the engine has told its flags.
        state: Where the run stands; only ``_enter`` changes it.
        ending: Why it is over, once it is.
        findings: What checks have found, and what was warned of since.
    """

    def __init__(self, plan: Plan, around: Surroundings) -> None:
        self.plan = plan
        self.state = State.PLANNED
        self.ending: Ending | None = None
        self.findings = plan.findings
        self._around = around
        self._notes: list[str] = []
        self._queue: asyncio.Queue[Event | BaseException] = asyncio.Queue()
        self._works = Works(self._queue.put_nowait)
        self._keeper = Keeper(around, self._works, self._post)
        self._caches = CacheKeeper(around)
        self._timer = PhaseTimer(
            plan.settings.deadlines,
            look=self._keeper.look,
            on_stall=self._on_stalled,
        )
        self._keeper.time_with(self._timer)
        self._budget = RestartBudget(plan.settings.restart)
        self._stop_clock: StopClock | None = None
        self._trouble = ""
        self._setback: Ending | None = None
        self._perform: Mapping[Effect, Callable[[], None]] = {
            Effect.CHECK: lambda: self._works.start("check", self._check(), {State.CHECKING}),
            Effect.WARM: lambda: self._works.start("warm", self._warm(), {State.WARMING}),
            Effect.JOIN_GANG: lambda: self._post(Happening.GANG_AGREED),
            Effect.SPAWN: lambda: self._keeper.spawn(self.plan),
            Effect.PROVE: lambda: self._works.start("prove", self._prove(), {State.PROVING}),
            Effect.ANNOUNCE: around.announcer.announce,
            Effect.WITHDRAW: around.announcer.withdraw,
            Effect.WATCH_SERVING: lambda: self._works.start("watch", self._watch_serving(), SERVING),
            Effect.WATCH_DRAIN: lambda: self._works.start("drain", self._watch_drain(), {State.DRAINING}),
            Effect.RELEASE: lambda: self._works.start("release", self._release(), TAKING_DOWN),
            Effect.KILL: self._keeper.kill,
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
        """Stop all work and read the engine's last lines."""
        self._works.leave(None)
        self._timer.cancel()
        await self._keeper.close()

    async def keep_caches(self) -> None:
        """Keep what the engine has built, in bounded time; the last thing that a run does."""
        await self._caches.close(self.plan, self._built)

    @property
    def tail(self) -> tuple[str, ...]:
        """The engine's last lines, secrets masked."""
        return self._keeper.tail()

    @property
    def log_evidence(self) -> LogEvidence:
        """What the log of the engine that ran last holds."""
        return self._keeper.log_evidence()

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a report should say."""
        return (*self._notes, *self._keeper.notes)

    # What comes from outside

    def ask_stop(self, source: str) -> None:
        """Ask for the end: drain, release, stop."""
        self._begin_to_stop()
        self._post(Happening.STOP_ASKED, StopAsked(source, self.state))

    def _begin_to_stop(self) -> None:
        if self._stop_clock is None:
            self._stop_clock = StopClock(self._now(), self.plan.settings.drain.timeout_s)

    def ask_force(self, source: str) -> None:
        """Ask for the end at once."""
        self._notes.append(f"Forced by {source}: requests in flight, if any, were lost.")
        self._post(Happening.FORCE_ASKED, StopAsked(source, self.state))

    def on_low_memory(self, low: LowMemory) -> None:
        """Warn that memory is about to run out, and who holds it; end the run in order, where that is wanted."""
        self._add_findings((low_memory_finding(low),))
        if self.plan.settings.watch.on_low_memory == "drain":
            self._begin_to_stop()
            self._post(Happening.MEMORY_LOW, MemoryLow(self.state, low))

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
        ending = event.ending.seen_in(self.state) if isinstance(event.ending, EngineDied) else event.ending
        happening = self._judged(event.happening, ending)
        transition = decide(self.state, happening)
        if transition == STAY:
            return
        if transition.to is not None:
            self._note_reason(transition.to, ending)
            self._enter(transition.to, happening)
        for effect in transition.effects:
            self._perform[effect]()

    def _note_reason(self, to: State, reason: Ending | None) -> None:
        """Keep why the run is over: the first reason, never what its teardown brings about.

        A death that is to be retried is no reason yet; it becomes one when the restart cannot be made.
        """
        if to is State.RESTARTING:
            self._setback = reason
        elif self.ending is None and to in ENDING_STATES:
            self.ending = reason or self._setback

    def _judged(self, happening: Happening, ending: Ending | None) -> Happening:
        """Return a death as one worth a retry, where it is."""
        retried = WORTH_A_RETRY.get(happening)
        if retried is None or ending is None or not self._budget.allows(self._now()):
            return happening
        verdict = judge(ending, self._keeper.log_evidence())
        worth_it = worth_a_restart(verdict, was_ready=self._keeper.was_ready, restarts=self._budget.total)
        return retried if worth_it else happening

    def _enter(self, state: State, happening: Happening) -> None:
        before, self.state = self.state, state
        self._keeper.state = state
        self._works.leave(state)
        ended = self._around.board.enter(state, ready=state in SERVING, reasons=self._reasons(state), now=time.time())
        tell = self._around.events.error if state in FAILING else self._around.events.tell
        lasted_s = None if ended is None or ended.lasted_s is None else round(ended.lasted_s, 3)
        tell("state", state=state.value, happening=happening.value, before=before.value, before_lasted_s=lasted_s)
        self._timer.enter(state)

    def _reasons(self, state: State) -> tuple[str, ...]:
        """Return why a state is not quite ready: for one that failed, what its report will say."""
        if state is State.READY:
            return ()
        if state is State.DEGRADED:
            return (self._trouble,)
        why = self._setback if state is State.RESTARTING else self.ending
        if state not in FAILING or why is None:
            return (state.value,)
        return (state.value, judge(why, self._keeper.log_evidence()).summary)

    # Before the engine

    async def _check(self) -> None:
        environment = self.plan.engine_environment(self._around.secrets)
        outcome = await preflight.check(self.plan, environment, self._around.store, self._around.replan)
        self.plan = outcome.plan
        self._show_findings(outcome.findings)
        for note in outcome.notes:
            self._around.events.tell("note", note=note)
        for finding in outcome.findings:
            self._around.events.warn("finding", **finding_data(finding))
        refusing = errors(outcome.findings)
        if refusing:
            self._post(Happening.CHECK_REFUSED, Refused(refusing))
        else:
            self._post(Happening.CHECKED)

    def _show_findings(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        self._around.board.findings = tuple(finding_data(finding) for finding in findings)

    def _add_findings(self, findings: tuple[Finding, ...]) -> None:
        """Take in what was found since the check; the newest of a rule replaces what it said before."""
        wanted = without_ignored(findings, self.plan.settings.rules.ignore)
        rules = {finding.rule for finding in wanted}
        self._show_findings((*(known for known in self.findings if known.rule not in rules), *wanted))
        for finding in wanted:
            self._around.events.warn("finding", **finding_data(finding))

    async def _warm(self) -> None:
        try:
            warmed = await self._caches.warm(self.plan)
        except SuperviseError as error:
            self._post(Happening.WARM_FAILED, Refused((error_finding("warm-steps", error),)))
            return
        self.plan = warmed.plan
        self._add_findings(warmed.findings)
        refusing = errors(without_ignored(warmed.findings, self.plan.settings.rules.ignore))
        if refusing:
            self._post(Happening.WARM_FAILED, Refused(refusing))
        else:
            self._post(Happening.WARMED)

    async def _keep_caches(self) -> None:
        await self._caches.keep(self.plan, self.plan.settings.caches.publish_every_s)

    @property
    def _built(self) -> tuple[str, ...]:
        """What the engine has built so far, by name."""
        return tuple(self._keeper.current.numbers.values.get("kernels_built", ())) if self._keeper.started else ()

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
        told = self._keeper.current.numbers.values
        self._add_findings((*judge_started(self.plan, told), *self._caches.judge_built(self._built)))
        self._around.events.tell("kernels", built_by_engine=len(self._built))
        if (pool := compare(self.plan.memory, told)) is not None:
            self._around.events.tell(
                "pool",
                tokens=pool.tokens,
                predicted_tokens=pool.predicted_tokens,
                difference=round(pool.difference, 4),
                available_bytes=pool.available_bytes,
                predicted_available_bytes=pool.predicted_available_bytes,
            )
        prove = self.plan.settings.prove
        if not prove.enabled:
            self._around.events.warn("unproven", reason="prove.enabled is false")
            self._proved()
            return
        result = await prove_server(self._keeper.current.client, self._spec)
        self._on_check(result)
        if any(failure.kind is FailureKind.CONNECTION for failure in result.failures):
            await asyncio.sleep(NEWS_OF_DEATH_S)  # cancelled by that news
        if result.passed:
            self._proved()
        elif prove.on_failure == "hold":
            self._post(Happening.DISPROVED_HOLD)
        else:
            self._post(Happening.DISPROVED, Disproved(result))

    def _proved(self) -> None:
        self._keeper.current.was_ready = True
        self._works.start("caches", self._keep_caches(), SERVING | {State.PROVING})
        self._post(Happening.PROVED)

    def _on_check(self, result: CheckResult) -> None:
        self._around.board.self_check = {**result.to_json(), "unix_s": time.time()}
        tell = self._around.events.tell if result.passed else self._around.events.error
        tell("self-check", passed=result.passed, seconds=round(result.seconds, 3), summary=result.summary())

    async def _watch_serving(self) -> None:
        prove = self.plan.settings.prove
        hooks = ServingHooks(
            on_load=lambda load: setattr(self._around.board, "load", load),
            on_check=self._on_check,
            on_trouble=self._on_trouble,
            on_well=lambda: self._post(Happening.WELL),
            on_hang=self._on_hung,
            signs=lambda: self._keeper.current.signs_of_work,
        )
        spec = self._spec if prove.enabled else None
        clock = HangClock(self.plan.settings.watch.stall_s)
        await watch_serving(self._keeper.current.client, spec, prove.every_s, clock, hooks)

    def _on_hung(self, still: Stillness) -> None:
        self._works.start("stacks", self._end_hung(Hung(self.state, still)), SERVING)

    async def _end_hung(self, hung: Hung) -> None:
        stacks = await self._keeper.stacks(self.plan.run_directory)
        self._post(Happening.HUNG, replace(hung, stacks=stacks))

    def _on_stalled(self, stalled: Stalled) -> None:
        if stalled.phase in COMING_UP:
            self._works.start("stacks", self._end_stalled(stalled), {stalled.phase})
        else:
            self._post(Happening.STALLED, stalled)

    async def _end_stalled(self, stalled: Stalled) -> None:
        stacks = await self._keeper.stacks(self.plan.run_directory)
        self._post(Happening.STALLED, replace(stalled, stacks=stacks))

    def _on_trouble(self, trouble: str) -> None:
        self._trouble = trouble
        if self.state is State.DEGRADED:
            self._around.board.explain((trouble,))
        self._post(Happening.UNWELL)

    # The end of the engine

    async def _watch_drain(self) -> None:
        limit_s = self._stop_clock.for_requests_s(self._now()) if self._stop_clock else 0.0
        watching = wait_until_idle(self._keeper.current.client, self._on_in_flight)
        try:
            await asyncio.wait_for(watching, limit_s)
        except TimeoutError:
            self._post(Happening.DRAIN_EXPIRED)
        else:
            self._post(Happening.IDLE)

    def _on_in_flight(self, in_flight: int | None) -> None:
        self._keeper.in_flight = in_flight
        self._around.board.progress = f"requests in flight: {'unknown' if in_flight is None else in_flight}"

    async def _release(self) -> None:
        drain = self.plan.settings.drain
        left_s = self._stop_clock.for_everything_s(self._now()) if self._stop_clock else drain.timeout_s
        await self._keeper.release(ReleaseLimits(begin_s=drain.release_start_s, finish_s=left_s))

    async def _back_off(self) -> None:
        pause_s = self._budget.spend(self._now())
        self._around.board.restarts = self._budget.total
        await self._keeper.clear_up()
        self._around.events.tell("restart", number=self._budget.total, pause_s=pause_s)
        await asyncio.sleep(pause_s)
        self._post(Happening.RESTART_DUE)
