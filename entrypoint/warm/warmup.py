"""The warm-up: caches filled and kernels built before the engine starts, where its watchdog cannot see it."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from entrypoint.findings import Finding, Severity
from entrypoint.offload import offload
from entrypoint.outcome import ExitCode
from entrypoint.plan.plan import Plan
from entrypoint.readable import duration
from entrypoint.warm import ground, layers
from entrypoint.warm.copy_report import CopyReport
from entrypoint.warm.file_copy import Durability
from entrypoint.warm.ground import Ground
from entrypoint.warm.jit import crew, lease, stamp
from entrypoint.warm.jit.choice import hands_for, steps_for
from entrypoint.warm.jit.contest import Contest, settle
from entrypoint.warm.jit.crew import CrewPlan, Progress
from entrypoint.warm.jit.lease import Holder, Lease
from entrypoint.warm.jit.result import GOOD, Outcome, StepResult
from entrypoint.warm.jit.stamp import Stamp, Subject
from entrypoint.warm.jit.step import Step
from entrypoint.warm.prebuilt import prebuilt_modules
from entrypoint.warm.prune import note_use
from entrypoint.warm.transfer import Manner, transfer

GIB = 1 << 30
NAMED = 5


@dataclass(frozen=True, slots=True)
class WarmHooks:
    """How a warm-up talks to whoever wants it.

    Attributes:
        tell: Told of what happened: a name, and fields.
        progress: Told how far it is, in words, with what is done and what there is in all.
        own: Told of each builder's process id.
        disown: Told when it has been reaped.
    """

    tell: Callable[[str, Mapping[str, object]], None]
    progress: Callable[[str, int, int], None]
    own: Callable[[int], None] = lambda _pid: None
    disown: Callable[[int], None] = lambda _pid: None


@dataclass(frozen=True, slots=True)
class Warmed:
    """What a warm-up came to.

    Attributes:
        plan: The plan; with some caches elsewhere where theirs were locked.
        findings: What is wrong; an error ends the run.
        summary: What was done, in one sentence.
        ground: What keeps the tree in use; None where it cannot be used.
        vouched: Everything that is known to be needed is built.
        results: What became of each step that was built here.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    summary: str
    ground: Ground | None = None
    vouched: bool = False
    results: tuple[StepResult, ...] = ()

    def close(self) -> None:
        """Use the tree no longer, and remove what was built beside it."""
        if self.ground is None or self.ground.use is None:
            return
        for place in ground.seeded_places(self.ground):
            shutil.rmtree(place, ignore_errors=True)  # what stays is removed with its key
        self.ground.use.close()


async def warm(
    plan: Plan, environment: Callable[[Plan], Mapping[str, str]], hooks: WarmHooks, *, again: bool
) -> Warmed:
    """Make caches and kernels ready for a plan.

    Cancelled, it ends its builders; what is published by then stays.

    Args:
        plan: The plan.
        environment: Returns the engine's whole environment for a plan.
        hooks: Who is told.
        again: Try again what an earlier warm-up could not build.

    Raises:
        SuperviseError: The user's own file of steps cannot be used.
    """
    laid = await offload(lambda: ground.lay(plan), "ground")
    for note in laid.notes:
        hooks.tell("lock-removed", {"note": note})
    if laid.use is None:
        return Warmed(plan, laid.findings, "nothing could be made ready")
    try:
        steps = await offload(lambda: steps_for(laid.plan), "steps") if plan.settings.warm.enabled else ()
        return await _Warmup(laid, steps, environment, hooks, again).perform()
    except BaseException:
        laid.use.close()
        raise


@dataclass(slots=True)
class _Warmup:
    ground: Ground
    steps: tuple[Step, ...]
    environment: Callable[[Plan], Mapping[str, str]]
    hooks: WarmHooks
    again: bool
    findings: list[Finding] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return self.ground.plan

    @property
    def about(self) -> Subject:
        return stamp.subject(str(self.plan.trees.key.directory), self.plan.meaning, self.steps)

    async def perform(self) -> Warmed:
        """Fill the caches, and build what is not there."""
        began = time.monotonic()
        found = await offload(self._known, "stamp")
        if found is None:
            await offload(self._fill, "seed")
            found = await offload(self._from_shared, "stamp")
        if found is not None and self._settles(found):
            seconds = time.monotonic() - began
            self.hooks.tell("warm-checked", {"libraries": len(found.files), "seconds": round(seconds, 4)})
            await self._end()
            return self._warmed(found, (), f"everything is built: {len(found.files)} libraries in {seconds:.3f} s")
        results = await self._build() if self.steps else ()
        settled = await offload(self._known, "stamp") or Stamp({}, _failures(results))
        await self._end()
        summary = _summary(results) if results or not self.steps else "another run has built everything"
        return self._warmed(settled, results, summary)

    async def _end(self) -> None:
        await offload(self._leave_locked, "locks")
        await offload(self._note_use, "use")

    def _settles(self, found: Stamp) -> bool:
        """Return whether a stamp leaves nothing to do."""
        return not (self.again and found.failed)

    def _warmed(self, settled: Stamp, results: tuple[StepResult, ...], summary: str) -> Warmed:
        if settled.failed:
            self.findings.append(self._failed(settled.failed, results))
        findings = (*self.ground.findings, *self.findings)
        vouched = not settled.failed and not self.ground.diverted
        return Warmed(self.plan, findings, summary, self.ground, vouched, results)

    def _known(self) -> Stamp | None:
        """Return this node's stamp; None where it has none, or what it names is not there."""
        local = self.plan.trees.local
        found = stamp.read(local, self.about)
        return None if found is None or stamp.missing(found, local) else found

    # Layers

    def _manner(self, what: str) -> Manner:
        def show(done_bytes: int, total_bytes: int) -> None:
            text = f"{what}: {done_bytes / GIB:.1f} of {total_bytes / GIB:.1f} GiB"
            self.hooks.progress(text, done_bytes, total_bytes)

        return Manner(time.time(), on_progress=show)

    def _fill(self) -> None:
        """Begin the shared tree with what the image has, and give this node what it lacks of it."""
        plan = self.plan
        image = _image_sources(plan)
        begun = layers.begin_shared(plan.caches, image, plan.trees.shared, self._manner("shared caches"))
        self._take_in("shared", begun)
        if plan.trees.shared.is_dir():
            seeded = layers.seed(plan.caches, plan.trees.shared, plan.trees.local, self._manner("caches"))
            self._take_in("seeded", seeded)
        if not begun.is_complete:  # what the image has is not all there: it is given to this node alone
            manner = self._manner("caches")
            self._take_in("seeded", transfer(plan.caches, image, plan.trees.local, Durability.IN_MEMORY, manner))

    def _leave_locked(self) -> None:
        """Go elsewhere with the caches in which somebody else holds a lock."""
        was = self.ground
        self.ground = ground.leave_locked(was)
        for note in self.ground.notes[len(was.notes) :]:
            self.hooks.tell("lock-removed", {"note": note})
        if self.ground.diverted and not was.diverted:
            for place, cache in ground.seeded_places(self.ground).items():
                self._fill_elsewhere(place, cache.place)

    def _fill_elsewhere(self, path: Path, place: str) -> None:
        """Give a cache that lies elsewhere what is kept of it."""
        original = next(cache for cache in self.ground.diverted if cache.place == place)
        moved = replace(original, place=str(path.relative_to(self.plan.trees.local)))
        source = {moved.place: self.plan.trees.shared / place}
        transfer([moved], source, self.plan.trees.local, Durability.IN_MEMORY, self._manner("caches"))

    def _take_in(self, what: str, report: CopyReport) -> None:
        """Tell what was copied, and note what could not be."""
        if report.copied:
            told = {"entries": report.copied, "bytes": report.copied_bytes, "seconds": round(report.seconds, 3)}
            self.hooks.tell(f"caches-{what}", told)
        finding = copy_finding(report)
        if finding is not None:
            self.findings.append(finding)

    def _from_shared(self) -> Stamp | None:
        """Take over the shared tree's stamp, where all that it names has come."""
        trees = self.plan.trees
        found = stamp.read(trees.shared, self.about)
        if found is None or stamp.missing(found, trees.local):
            return None
        stamp.write(trees.local, self.about, found)
        return found

    def _note_use(self) -> None:
        for tree in (self.plan.trees.local, self.plan.trees.shared):
            note_use(tree)

    # Kernels

    async def _build(self) -> tuple[StepResult, ...]:
        """Build what is missing, unless another does; return what became of each step."""
        job = self.plan.node.environ.get("SLURM_JOB_ID")
        contest: Contest[tuple[StepResult, ...]] = Contest(
            await offload(self._common_tree, "tree"),
            lease.myself(job),
            self._settled,
            self._build_here,
            self._on_wait,
        )
        return await settle(contest)

    def _common_tree(self) -> Path:
        """Return the tree that is built for: the shared one, or this node's where that cannot be written."""
        shared = self.plan.trees.shared
        try:
            Lease(shared, lease.myself()).probe()
        except OSError:
            return self.plan.trees.local
        return shared

    def _settled(self) -> tuple[StepResult, ...] | None:
        """Return that another has built everything; None as long as nobody has."""
        found = self._known()
        if found is None and stamp.read(self.plan.trees.shared, self.about) is not None:
            self._fill()
            found = self._from_shared()
        return () if found is not None and self._settles(found) else None

    def _on_wait(self, holder: Holder, heard: str) -> None:
        self.hooks.progress(f"{holder} builds" + (f": {heard}" if heard else ""), 0, 0)

    async def _build_here(self, held: Lease) -> tuple[StepResult, ...]:
        await offload(self._leave_locked, "locks")
        hands = hands_for(self.plan, len(self.steps))
        warm_settings = self.plan.settings.warm
        crew_plan = CrewPlan(
            self.plan.engine.python,
            self.environment(self.plan),
            hands.workers,
            hands.jobs,
            warm_settings.timeout_s,
            bool(self.plan.node.architecture),
            self.hooks.own,
            self.hooks.disown,
        )
        self.hooks.tell("build", {"steps": len(self.steps), "workers": hands.workers, "jobs": hands.jobs})
        results = await crew.build(self.steps, crew_plan, lambda progress: self._on_progress(progress, held))
        await offload(lambda: self._publish(results), "publish")
        return results

    def _on_progress(self, progress: Progress, held: Lease) -> None:
        at = ", ".join(list(progress.at)[:NAMED])
        text = f"{progress.done} of {progress.total} steps" + (f"; building {at}" if at else "")
        self.hooks.progress(text, progress.done, progress.total)
        held.progress = text
        if progress.last is not None:
            self.hooks.tell("step", step_data(progress.last))

    def _publish(self, results: tuple[StepResult, ...]) -> None:
        """Keep what was built, and vouch for it."""
        plan = self.plan
        if self.ground.diverted:
            return  # what was built elsewhere goes with this run
        report = layers.publish(plan.caches, plan.trees.local, plan.trees.shared, self._manner("publishing"))
        self._take_in("published", report)
        made = Stamp(stamp.libraries(plan.caches, plan.trees.local), _failures(results))
        stamp.write(plan.trees.local, self.about, made)
        if report.is_complete and not stamp.missing(made, plan.trees.shared):
            stamp.write(plan.trees.shared, self.about, made)

    def _failed(self, failed: Mapping[str, str], results: tuple[StepResult, ...]) -> Finding:
        first, reason = next(iter(failed.items()))
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        earlier = "" if results else " in an earlier warm-up"
        stops = self.plan.settings.warm.on_failure == "stop"
        return Finding(
            "warm-failed",
            Severity.ERROR if stops else Severity.WARNING,
            f"The step {first!r}{more} could not be built{earlier}: {reason}.",
            "Read its compiler's output in the events; supervise warm tries again. The engine will build it by itself, "
            "under its watchdog.",
            "warm.on_failure",
            ExitCode.NODE_UNFIT,
        )


def _failures(results: tuple[StepResult, ...]) -> dict[str, str]:
    """Return why each step could not be built, by its name."""
    return {each.step.name: each.reason for each in results if each.outcome not in GOOD}


def _image_sources(plan: Plan) -> dict[str, Path]:
    """Return the image's directory for each place that it has something for."""
    places = {cache.place: plan.trees.image / cache.place for cache in plan.caches if cache.place and cache.entries}
    sources = {place: path for place, path in places.items() if path.is_dir()}
    modules = prebuilt_modules(plan.engine.python)
    if modules and "aiter/jit" not in sources:
        sources["aiter/jit"] = modules[0].parent
        if (packaged := modules[0].parent / "flydsl_cache").is_dir():
            sources.setdefault("flydsl", packaged)
    return sources


def copy_finding(report: CopyReport) -> Finding | None:
    """Return what kept entries from being copied; None where nothing did, or a tree is read only by intent."""
    if report.is_complete or report.is_read_only:
        return None
    if report.stopped is not None:
        reason = report.stopped.reason
    else:
        first = report.failures[0]
        reason = f"{first.path} of {first.variable}: {first.reason}, and {len(report.failures) - 1} more"
    return Finding(
        "cache-not-copied",
        Severity.WARNING,
        f"Not every cache entry could be copied: {reason}.",
        "Free space or repair the file system; what is not kept is built again.",
        "caches.shared",
    )


def step_data(result: StepResult) -> dict[str, object]:
    """Return what became of a step as an event's fields."""
    return {
        "step": result.step.name,
        "outcome": result.outcome.value,
        "seconds": round(result.seconds, 1),
        "modules": result.modules,
        "reason": result.reason,
        "output": result.output,
    }


def _summary(results: tuple[StepResult, ...]) -> str:
    if not results:
        return "nothing is to be built ahead"
    built = [module for each in results if each.outcome is Outcome.BUILT for module in each.modules]
    done = sum(each.outcome in GOOD for each in results)
    seconds = sum(each.seconds for each in results)
    return f"{done} of {len(results)} steps are ready, {len(built)} libraries built, {duration(round(seconds))} of work"
