"""Records of a run: what its directory holds beside the engine's log, read back after the fact.

Each record may be missing or cut off, as after a node that died; what is there counts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, FiniteFloat, TypeAdapter, ValidationError

from entrypoint.exit_status import ExitStatus
from entrypoint.tell.board import Phase
from entrypoint.verdict.evidence import MemoryEvidence, MemoryOwner, MemoryPoint
from entrypoint.verdict.trend import LOOK_BACK_S, Headroom, ended_at_floor
from entrypoint.verdict.verdict import Verdict

POINTS_KEPT = 300
LONGEST_LINE_CHARACTERS = 1 << 20
_SERVED = frozenset({"ready", "degraded", "draining"})
_TAKEN_DOWN = frozenset({"draining", "stopping", "aborting", "stopped", "failed"})


@dataclass(frozen=True, slots=True)
class RunRecords:
    """What one rank of a run has left.

    Attributes:
        phases: Its states with their durations.
        status: How its engine ended, the last time; None where that is not told.
        died_in: The state in which it ended; empty where that is not told.
        lived_s: How long that engine had lived; None where that is not told.
        unasked: It ended while nobody had asked it to.
        verdict: What the run itself said; None where it said nothing.
        notes: What it said besides.
        memory: How memory went.
    """

    phases: tuple[Phase, ...] = ()
    status: ExitStatus | None = None
    died_in: str = ""
    lived_s: float | None = None
    unasked: bool = False
    verdict: Verdict | None = None
    notes: tuple[str, ...] = ()
    memory: MemoryEvidence | None = None

    @property
    def was_ready(self) -> bool:
        """Whether it ever served."""
        return any(phase.name in _SERVED for phase in self.phases)


class _Kills(BaseModel):
    """Out-of-memory kills that were counted during the run."""

    node: int | None = None
    cgroup: int | None = None


class _Node(BaseModel):
    """The node's memory."""

    total_bytes: int


class _Sample(BaseModel):
    """What is read of one sample of memory; only now and then one is whole."""

    at_unix_s: FiniteFloat
    headroom_bytes: int
    available_bytes: int | None = None
    node: _Node | None = None
    floor_bytes: int | None = None
    limit_bytes: int | None = None
    limit_of: str | None = None
    oom_kills: _Kills = _Kills()
    processes: tuple[MemoryOwner, ...] | None = None


_VERDICT = TypeAdapter(Verdict)
_MEMORY = TypeAdapter(MemoryEvidence)


def is_run_directory(directory: Path) -> bool:
    """Return whether a directory is one that a run has made."""
    return (directory / "plan.json").is_file() or any(directory.glob("server-*.log"))


def log_names(directory: Path) -> list[str]:
    """Return the engine's logs in a run directory, with the parts that were set aside."""
    return sorted(str(path) for path in directory.glob("server-*.log*") if path.is_file())


def read_records(directory: Path, rank: int) -> RunRecords:
    """Return what one rank of a run has left in its directory."""
    events = list(_json_lines(directory / f"events-{rank}.jsonl"))
    report = _json(directory / f"report-{rank}.json")
    end = _exit(events)
    return RunRecords(
        phases=tuple(_phases(events)),
        status=end.status,
        died_in=end.state,
        lived_s=end.lived_s,
        unasked=end.unasked,
        verdict=_verdict(report),
        notes=_notes(report),
        memory=_memory_of_report(report) or _memory_of_samples(directory, rank, end.unix_s),
    )


# Events


def _phases(events: Sequence[Mapping[str, Any]]) -> Iterator[Phase]:
    entered = [
        (event["state"], at)
        for event in events
        if event.get("event") == "state" and "state" in event and (at := _unix_s(event)) is not None
    ]
    ends = [at for _, at in entered[1:]]
    for place, (state, at) in enumerate(entered):
        yield Phase(str(state), at, ends[place] - at if place < len(ends) else None)


@dataclass(frozen=True, slots=True)
class _Exit:
    """How an engine ended; what is not told is empty or None.

    Attributes:
        began_unix_s: When it was started.
        unix_s: When it ended.
        status: With what.
        state: In which state of the run.
        unasked: Nobody had asked it to end.
    """

    began_unix_s: float | None = None
    unix_s: float | None = None
    status: ExitStatus | None = None
    state: str = ""
    unasked: bool = False

    @property
    def lived_s(self) -> float | None:
        """How long it lived; None as well where the run itself ended it."""
        if self.status is None or self.unix_s is None or self.began_unix_s is None:
            return None
        return self.unix_s - self.began_unix_s


def _exit(events: Sequence[Mapping[str, Any]]) -> _Exit:
    """Return how the last engine ended; how an earlier one did says nothing of the one that was started after it."""
    before, state, found = "", "", _Exit()
    for event in events:
        if event.get("event") == "state":
            before, state = state, str(event.get("state", ""))
            found = _Exit(began_unix_s=_unix_s(event)) if state == "starting" else found
        elif event.get("event") == "engine-exited" and state == "aborting":  # with the signal that the run sent
            found = replace(found, unix_s=_unix_s(event), state=before)
        elif event.get("event") == "engine-exited":
            status = ExitStatus.parse(str(event.get("status")))
            unasked = state not in _TAKEN_DOWN
            found = replace(found, unix_s=_unix_s(event), status=status, state=state, unasked=unasked)
    return found


def _unix_s(event: Mapping[str, Any]) -> float | None:
    try:
        return datetime.fromisoformat(str(event.get("time"))).timestamp()
    except (ValueError, OverflowError):  # damaged, or of another version
        return None


# The report and the curve


def _verdict(report: Mapping[str, Any]) -> Verdict | None:
    try:
        return _VERDICT.validate_python(report)
    except ValidationError:  # none, or one of another version: the log is read anyway
        return None


def _notes(report: Mapping[str, Any]) -> tuple[str, ...]:
    notes = report.get("notes")
    return tuple(map(str, notes)) if isinstance(notes, list) else ()


def _memory_of_report(report: Mapping[str, Any]) -> MemoryEvidence | None:
    try:
        return _MEMORY.validate_python(report.get("memory"))
    except ValidationError:  # none, or one of another version
        return None


def _memory_of_samples(directory: Path, rank: int, ended_unix_s: float | None) -> MemoryEvidence | None:
    """Return how memory went by the samples alone, as after a supervisor that was killed.

    Where nobody saw the engine end, it is taken to have ended with the last sample.
    """
    files = (directory / f"memory-{rank}.jsonl.1", directory / f"memory-{rank}.jsonl")
    samples = [sample for path in files for sample in _samples(path)]
    whole = next((sample for sample in reversed(samples) if sample.node is not None), None)
    if whole is None or whole.node is None:
        return None
    last = samples[-1]
    ended_s = last.at_unix_s if ended_unix_s is None else ended_unix_s
    floor_bytes = whole.floor_bytes or 0
    headroom = [Headroom(each.at_unix_s, each.headroom_bytes) for each in samples]
    until: Sequence[_Sample] = [sample for sample in samples if sample.at_unix_s <= ended_s]
    if at_floor := ended_at_floor(headroom, floor_bytes, ended_s, LOOK_BACK_S):
        until = _until_lowest(until, ended_s - LOOK_BACK_S)
    thinned = [*until[: -1 : max(1, len(until) // POINTS_KEPT)], *until[-1:]]
    return MemoryEvidence(
        total_bytes=whole.node.total_bytes,
        floor_bytes=floor_bytes,
        limit_bytes=whole.limit_bytes,
        limit_of=whole.limit_of,
        points=tuple(MemoryPoint(each.at_unix_s, each.available_bytes or 0, each.headroom_bytes) for each in thinned),
        node_oom_kills=last.oom_kills.node,
        cgroup_oom_kills=last.oom_kills.cgroup,
        at_floor=at_floor,
        owners=tuple(MemoryOwner(process.name, process.bytes, process.pid) for process in whole.processes or ()),
    )


def _until_lowest(samples: Sequence[_Sample], begin_s: float) -> Sequence[_Sample]:
    """Return the samples up to the lowest of the last ones: then memory was free again, which is another story."""
    lowest = min(
        (sample for sample in samples if sample.at_unix_s >= begin_s), key=lambda sample: sample.headroom_bytes
    )
    return [sample for sample in samples if sample.at_unix_s <= lowest.at_unix_s]


def _samples(path: Path) -> Iterator[_Sample]:
    """Yield the samples that tell how much was left; what is damaged is left out."""
    for line in _json_lines(path):
        with suppress(ValidationError):
            yield _Sample.model_validate(line)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing, or cut off
        return {}
    return value if isinstance(value, Mapping) else {}


def _json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file of JSON lines; a line that is cut off or damaged is left out."""
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except OSError:  # missing
        return
    with file:
        for line in file:
            try:
                value = json.loads(line) if len(line) < LONGEST_LINE_CHARACTERS else None
            except ValueError:
                continue
            if isinstance(value, Mapping):
                yield value
