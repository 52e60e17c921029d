"""Records of a run: what its directory holds beside the engine's log, read back after the fact.

Each record may be missing or cut off, as after a node that died; what is there counts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.exit_status import ExitStatus
from entrypoint.outcome import ExitCode
from entrypoint.tell.board import Phase
from entrypoint.verdict.evidence import MemoryEvidence, MemoryOwner, MemoryPoint
from entrypoint.verdict.verdict import Verdict

POINTS_KEPT = 300
LONGEST_LINE_CHARACTERS = 1 << 20
_SERVED = frozenset({"ready", "degraded", "draining"})


@dataclass(frozen=True, slots=True)
class RunRecords:
    """What one rank of a run has left.

    Attributes:
        phases: Its states with their durations.
        status: How its engine ended, the last time; None where that is not told.
        died_in: The state in which it ended; empty where that is not told.
        verdict: What the run itself said; None where it said nothing.
        memory: How memory went.
        settings: The settings that its report shows, as data.
    """

    phases: tuple[Phase, ...] = ()
    status: ExitStatus | None = None
    died_in: str = ""
    verdict: Verdict | None = None
    memory: MemoryEvidence | None = None

    @property
    def was_ready(self) -> bool:
        """Whether it ever served."""
        return any(phase.name in _SERVED for phase in self.phases)


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
    status, died_in = _exit(events)
    return RunRecords(
        phases=tuple(_phases(events)),
        status=status,
        died_in=died_in,
        verdict=_verdict(report),
        memory=_memory_of_report(report) or _memory_of_samples(directory, rank),
    )


# Events


def _phases(events: Sequence[Mapping[str, Any]]) -> Iterator[Phase]:
    entered = [(event["state"], _unix_s(event)) for event in events if event.get("event") == "state"]
    ends = [at for _, at in entered[1:]]
    for place, (state, at) in enumerate(entered):
        yield Phase(str(state), at, ends[place] - at if place < len(ends) else None)


def _exit(events: Sequence[Mapping[str, Any]]) -> tuple[ExitStatus | None, str]:
    """Return how the engine ended the last time, and the state it ended in."""
    state, status, died_in = "", None, ""
    for event in events:
        if event.get("event") == "state":
            state = str(event.get("state", ""))
        elif event.get("event") == "engine-exited":
            status, died_in = ExitStatus.parse(str(event.get("status"))), state
    return status, died_in


def _unix_s(event: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(str(event["time"])).timestamp()


# The report and the curve


def _verdict(report: Mapping[str, Any]) -> Verdict | None:
    try:
        return Verdict(
            code=ExitCode(report["code"]),
            summary=str(report["summary"]),
            remedy=str(report["remedy"]),
            evidence=tuple(map(str, report["evidence"])),
            phase=str(report["phase"]),
            cause=Cause(report["cause"]),
            confidence=Confidence(report["confidence"]),
            retry=Retry(report["retry"]),
            signature=str(report["signature"]),
            root=str(report["root"]),
            cascades=tuple(map(str, report["cascades"])),
            line_number=report["line_number"],
            reasons=tuple(map(str, report["reasons"])),
        )
    except (KeyError, TypeError, ValueError):  # none, or one of another version: the log is read anyway
        return None


def _memory_of_report(report: Mapping[str, Any]) -> MemoryEvidence | None:
    memory = report.get("memory")
    if not isinstance(memory, Mapping):
        return None
    try:
        return MemoryEvidence(
            **{
                **memory,
                "points": tuple(MemoryPoint(**point) for point in memory["points"]),
                "owners": tuple(MemoryOwner(**owner) for owner in memory["owners"]),
            }
        )
    except (KeyError, TypeError):  # of another version
        return None


def _memory_of_samples(directory: Path, rank: int) -> MemoryEvidence | None:
    """Return how memory went by the samples alone, as after a supervisor that was killed."""
    files = (directory / f"memory-{rank}.jsonl.1", directory / f"memory-{rank}.jsonl")
    samples = [sample for path in files for sample in _json_lines(path) if sample.get("headroom_bytes") is not None]
    whole = next((sample for sample in reversed(samples) if sample.get("total_bytes") is not None), None)
    if whole is None:
        return None
    last = samples[-1]
    thinned = samples[:: max(1, len(samples) // POINTS_KEPT)]
    floor = int(whole.get("floor_bytes") or 0)
    kills = last.get("oom_kills") or {}
    return MemoryEvidence(
        total_bytes=int(whole["total_bytes"]),
        floor_bytes=floor,
        limit_bytes=whole.get("limit_bytes"),
        limit_of=whole.get("limit_of"),
        points=tuple(
            MemoryPoint(float(each["at_unix_s"]), int(each["available_bytes"] or 0), int(each["headroom_bytes"]))
            for each in thinned
        ),
        node_oom_kills=kills.get("node"),
        cgroup_oom_kills=kills.get("cgroup"),
        at_floor=last["headroom_bytes"] <= floor or last.get("seconds_to_floor") == 0,
        owners=tuple(
            MemoryOwner(str(process["name"]), int(process["bytes"]), int(process["pid"]))
            for process in whole.get("processes") or ()
        ),
    )


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
