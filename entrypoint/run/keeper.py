"""The keeper of the engine: starts it, listens to it, takes it down, one generation after the other."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from entrypoint.engine.client import EngineClient
from entrypoint.engine.log import LogFact
from entrypoint.exit_status import ExitStatus
from entrypoint.node.ports import listens, taken_finding
from entrypoint.node.processes import descendants
from entrypoint.offload import offload
from entrypoint.plan.plan import Plan
from entrypoint.run import activity
from entrypoint.run.endings import EngineDied, PortTaken, SpawnFailed
from entrypoint.run.generation import Generation
from entrypoint.run.leftovers import remove_leftovers
from entrypoint.run.memory_return import wait_for_return
from entrypoint.run.numbers import SIGNS
from entrypoint.run.phase_timer import PhaseTimer
from entrypoint.run.release import ReleaseLimits, release
from entrypoint.run.serving import wait_until_ready
from entrypoint.run.stacks import take_stacks, write_stacks
from entrypoint.run.states import COMING_UP, EVERY_STATE, TAKING_DOWN, Happening, State
from entrypoint.run.surroundings import Post, Surroundings
from entrypoint.run.works import Works
from entrypoint.verdict.evidence import LogEvidence, RankEnd
from entrypoint.verdict.wording import size

PROGRESS_EVERY_S = 10.0
CLEAR_UP_S = 5.0
KILL_S = 10.0
"""Seconds after which processes that SIGKILL did not end are given up: only the kernel can hold them so long."""

DRAINED = ExitStatus(0, None)
"""How SGLang ends when it was told to drain itself, by Slurm for example, and has finished every request (0.5.23)."""


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the engine's main process.

    Attributes:
        status: How it ended; None when nobody saw.
        lived_s: How long it had lived.
        unix_s: When it ended.
    """

    status: ExitStatus | None
    lived_s: float
    unix_s: float


class Keeper:
    """Looks after the engine's processes.

    Args:
        around: What the run talks to.
        works: The run's background tasks.
        post: Tells the run what happened.

    Attributes:
        state: The run's state, told by the supervisor at each change.
        in_flight: Requests that the engine works on, as last seen while draining; None where it cannot say.
        notes: What a report should say about the engine's end.
    """

    def __init__(self, around: Surroundings, works: Works, post: Post) -> None:
        self.state = State.PLANNED
        self.in_flight: int | None = 0
        self.notes: list[str] = []
        self._around = around
        self._works = works
        self._post = post
        self._timer: PhaseTimer | None = None
        self._generation: Generation | None = None
        self._news = asyncio.Lock()
        """Held while one piece of news of the engine's processes is passed on: they keep their order."""
        self._told_progress_at = float("-inf")

    def time_with(self, timer: PhaseTimer) -> None:
        """Tell this timer what progresses."""
        self._timer = timer

    @property
    def current(self) -> Generation:
        """The generation that runs, or ran last.

        Raises:
            RuntimeError: None was ever started.
        """
        if self._generation is None:
            raise RuntimeError("no engine was started")
        return self._generation

    @property
    def started(self) -> bool:
        """Whether an engine was ever started."""
        return self._generation is not None

    @property
    def was_ready(self) -> bool:
        """Whether the current generation has ever served."""
        return self._generation is not None and self._generation.was_ready

    def tail(self) -> tuple[str, ...]:
        """Return the engine's last lines, secrets masked."""
        return self._generation.tail() if self._generation else ()

    def log_evidence(self) -> LogEvidence:
        """Return what the log of the engine that ran last holds."""
        return self._generation.log_evidence() if self._generation else LogEvidence("")

    def look(self) -> activity.Activity | None:
        """Return what the engine's processes have done so far; None where there are none."""
        generation = self._generation
        return activity.look(generation.child.warden_pid) if generation and generation.started else None

    # Start

    async def stacks(self, directory: Path) -> tuple[str, ...]:
        """Return where each process of the engine stands, one line each; all of it goes to a file."""
        generation = self.current
        taken = await take_stacks(generation.child.warden_pid)
        path = directory / f"stacks-{self._around.rank}-{generation.number}.txt"
        try:
            await offload(lambda: write_stacks(path, taken, self._around.masker), "stacks")
        except OSError as error:
            self.notes.append(f"The stacks could not be written to {path}: {error.strerror}.")
        else:
            self.notes.append(f"Where every process of the engine stood is in {path}.")
        return tuple(self._around.masker.mask_text(str(stack)) for stack in taken)

    def spawn(self, plan: Plan) -> None:
        """Start the next generation, and look for its port."""
        number = 0 if self._generation is None else self._generation.number + 1
        key = self._around.secrets.api_key
        client = EngineClient.open(plan.local_url, api_key=key.get_secret_value() if key else None)
        generation = self._generation = Generation(number, self._now(), client)
        generation.headroom_before_bytes = self._around.memory.known_headroom_bytes
        board = self._around.board
        board.generation, board.engine = number, generation.numbers.values
        board.log = generation.log_figures
        try:
            generation.start(
                plan.argv,
                plan.engine_environment(self._around.secrets),
                listener=_Listener(self, generation),
                on_facts=lambda facts: self._on_facts(generation, facts),
                index=self._around.signatures,
                log_path=plan.log_path,
                log_max_bytes=plan.settings.logs.max_bytes,
                masker=self._around.masker,
            )
        except OSError as error:
            self.on_spawn_failed(generation, error)
        else:
            self._around.memory.follow(generation.child.warden_pid)
            self._works.start("ready", self._wait_until_ready(generation, plan), COMING_UP)

    async def _wait_until_ready(self, generation: Generation, plan: Plan) -> None:
        async def is_its_own() -> bool:
            below = generation.child.warden_pid
            seen = await offload(lambda: listens(descendants(below), plan.engine_port), "port")
            return seen is not False  # where it cannot be seen, whoever answers is believed

        if await wait_until_ready(generation, is_its_own, lambda: self._post(Happening.PORT_OPEN)):
            self._post(Happening.ENGINE_READY)
            return
        where = (plan.engine_host, plan.engine_port, "the engine", "engine.port")
        finding = await offload(lambda: taken_finding(*where), "port")
        self._post(Happening.PORT_TAKEN, PortTaken(self.state, finding))

    # What the engine says

    def _on_facts(self, generation: Generation, facts: list[LogFact]) -> None:
        if generation is not self._generation:
            return
        if generation.take(facts):
            self._on_progress(generation.numbers.progress)
        for fact in facts:
            if fact.kind in SIGNS:
                self._post(SIGNS[fact.kind])

    def _on_progress(self, progress: str | None) -> None:
        """Note progress, and show it to those who watch, not more often than anybody reads."""
        if self.state not in COMING_UP:
            return  # a serving engine's lines are no phase's progress
        if self._timer is not None:
            self._timer.progressed(progress)
        self._around.board.progress = progress
        if progress and self._now() - self._told_progress_at >= PROGRESS_EVERY_S:
            self._told_progress_at = self._now()
            self._around.events.tell("progress", state=self.state.value, progress=progress)

    def on_exited(self, generation: Generation, status: ExitStatus | None) -> None:
        """Take the news that the engine's main process ended."""
        lived_s = self._now() - generation.started_at
        ended = Ended(status, lived_s, time.time())
        self._works.start("exited", self._pass_on_exit(generation, ended), EVERY_STATE)

    async def _pass_on_exit(self, generation: Generation, ended: Ended) -> None:
        status = ended.status
        async with self._news:
            await generation.caught_up()
            memory = await self._around.memory.evidence(ended.unix_s)
            self._around.events.tell("engine-exited", status=str(status), generation=generation.number)
            if self.state is State.DRAINING and self.in_flight and status != DRAINED:
                self.notes.append(f"The engine ended while it drained and lost {_requests(self.in_flight)} in flight.")
            end = RankEnd(
                rank=self._around.rank,
                phase=self.state.value,
                log=generation.log_evidence(),
                was_ready=generation.was_ready,
                status=status,
                memory=memory,
                lived_s=ended.lived_s,
                unasked=True,
            )
            self._post(Happening.ENGINE_DIED, EngineDied(self.state, generation.number, end))

    def on_spawn_failed(self, generation: Generation, error: OSError) -> None:
        """Take the news that the engine's command could not be executed."""
        reason = error.strerror or str(error)
        self._around.events.error("engine-not-started", generation=generation.number, reason=reason)
        self._post(Happening.SPAWN_FAILED, SpawnFailed(reason))

    def on_gone(self, generation: Generation) -> None:
        """Take the news that no process of the engine is left."""
        self._works.start("gone", self._pass_on_gone(generation), EVERY_STATE)

    async def _pass_on_gone(self, generation: Generation) -> None:
        async with self._news:
            self._around.events.tell("engine-gone", generation=generation.number)
            self._post(Happening.ENGINE_GONE)

    # End

    async def release(self, limits: ReleaseLimits) -> None:
        """Ask the engine to end and make it; ends by cancellation when the engine does."""
        if not self.current.started:  # asked to stop before the news that it could not be started was read
            self._post(Happening.ENGINE_GONE)
            return
        step = await release(self.current, limits, idle=self.in_flight == 0)
        self._around.events.tell("engine-killed", why=step.value)
        if self.in_flight:
            self.notes.append(f"{_requests(self.in_flight)} in flight could not be finished within drain.timeout_s.")
        await self._expect_gone(self.current)

    def kill(self) -> None:
        """Kill every process of the engine; tell that none is left where none was."""
        generation = self._generation
        if generation is None or not generation.started or self._waits_for_nothing(generation):
            self._post(Happening.ENGINE_GONE)
            return
        generation.child.kill()
        self._works.start("kill", self._expect_gone(generation), TAKING_DOWN | {State.RESTARTING})

    def _waits_for_nothing(self, generation: Generation) -> bool:
        """Return whether the run takes down an engine that is gone, as after a backoff that was cut short.

        A restart begins with the death of the engine: that it is gone is still to be read from the queue then.
        """
        return generation.child.gone and self.state in TAKING_DOWN

    async def _expect_gone(self, generation: Generation) -> None:
        await asyncio.sleep(KILL_S)
        if generation.child.gone:  # and the run waits for something else in the same state: its next start
            return
        self.notes.append(
            f"Processes of the engine are still there {KILL_S:.0f} s after SIGKILL: the kernel holds them."
        )
        self._post(Happening.RELEASE_EXPIRED)

    async def close(self) -> None:
        """Kill what is left of the current generation, read its last lines and close its client."""
        if self._generation is not None:
            if self._generation.started:
                self._generation.child.kill()
            await self._generation.close()

    async def clear_up(self) -> None:
        """Close a generation that is gone, and get back the memory that it held, before another begins."""
        await self.close()
        await self._remove_leftovers()
        before_bytes = self.current.headroom_before_bytes
        if before_bytes is None:
            return
        missing_bytes = await wait_for_return(before_bytes, self._around.memory.headroom_bytes)
        if missing_bytes:
            self._around.events.warn("memory-not-back", missing_bytes=missing_bytes)
            self.notes.append(
                f"{size(missing_bytes)} of memory did not come back after the engine had ended: somebody else holds it."
            )

    async def _remove_leftovers(self) -> None:
        began_unix_s = self.current.began_unix_s
        try:
            async with asyncio.timeout(CLEAR_UP_S):
                removed = await offload(lambda: remove_leftovers(began_unix_s), "leftovers")
        except TimeoutError:
            self._around.events.warn("leftovers-unknown", reason=f"the look at them took over {CLEAR_UP_S:.0f} s")
        else:
            if removed.files:
                self._around.events.tell("leftovers-removed", files=removed.files, bytes=removed.bytes)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _Listener:
    """Passes on what happens to the processes of one generation."""

    def __init__(self, keeper: Keeper, generation: Generation) -> None:
        self._keeper = keeper
        self._generation = generation

    def on_started(self, pid: int) -> None:
        """Nothing waits for this: the log and the port tell more."""

    def on_spawn_failed(self, error: OSError) -> None:
        """The command could not be executed."""
        self._keeper.on_spawn_failed(self._generation, error)

    def on_exited(self, status: ExitStatus | None) -> None:
        """The main process ended."""
        self._keeper.on_exited(self._generation, status)

    def on_gone(self) -> None:
        """No process is left."""
        self._keeper.on_gone(self._generation)
