"""The contents of a report in words, in the order in which somebody under stress reads them; the forms only set them.

Everything is cut to what one page can hold; the data beside the page have the rest.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from entrypoint.cause import Confidence, Retry
from entrypoint.findings import Finding
from entrypoint.outcome import ExitCode
from entrypoint.readable import abbreviated, duration, shortened
from entrypoint.tell.board import Phase
from entrypoint.tell.excerpt import LogLine, as_line, excerpt
from entrypoint.tell.report_data import Report
from entrypoint.tell.report_settings import SettingShown
from entrypoint.verdict.evidence import MemoryEvidence
from entrypoint.verdict.wording import size

PHASES_SHOWN = 30
ITEMS_SHOWN = 40
LONGEST_TITLE = 160
LONGEST_PROSE = 2000
LONGEST_VALUE = 200
SIGNATURES = "docs/signatures.md"
RULES_EXPLAINED = "Why there is such a rule stands in docs/rules.md, under its name."
_DAY_S = 86_400
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")

CODES = {
    ExitCode.STOPPED: "stopped as asked",
    ExitCode.USAGE: "usage",
    ExitCode.NODE_UNFIT: "this node cannot run it",
    ExitCode.ENGINE_FAILED: "the engine failed",
    ExitCode.OUT_OF_MEMORY: "out of memory",
    ExitCode.DIRECTORY_UNUSABLE: "a directory cannot be used",
    ExitCode.RETRY_ELSEWHERE: "a hang, or a lost peer or node",
    ExitCode.SELF_CHECK_FAILED: "the self-check failed",
    ExitCode.NOT_PERMITTED: "not permitted",
    ExitCode.CONFIGURATION: "the settings cannot work",
}
CONFIDENCES = {
    Confidence.CERTAIN: "certain: the cause says so itself, or a counter of the kernel does",
    Confidence.PROBABLE: "probable: independent signs agree, and none speaks against it",
    Confidence.POSSIBLE: "possible: one weak sign, worth a look, not to be relied upon",
    Confidence.UNKNOWN: "no cause is named",
}
RETRIES = {
    Retry.NEVER: "cannot help: the same settings end the same",
    Retry.CHANGED: "helps only when something is changed first",
    Retry.HERE: "can help, on this node too",
    Retry.ELSEWHERE: "can help, on another node",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the verdict.

    Attributes:
        label: What it is about.
        words: What is the case.
        code: A word of the program's own before it, such as an identifier; empty without one.
    """

    label: str
    words: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class PhaseShown:
    """A state of the timeline.

    Attributes:
        name: The state.
        began: When, in UTC; with the day where the run was longer than one.
        lasted: How long, in words.
        share: Its share of the whole time.
    """

    name: str
    began: str
    lasted: str
    share: float


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds memory, in words."""

    name: str
    pid: str
    size: str
    share: float


@dataclass(frozen=True, slots=True)
class Contents:
    """What stands on the page, from top to bottom.

    Attributes:
        title: What happened, in one sentence.
        lead: The rest of what happened.
        facts: The verdict's parts.
        remedy: What to change.
        next_command: What to type next.
        reasons: Why the verdict is believed.
        evidence: Lines that show it and do not stand in ``log``.
        notes: Other things worth knowing.
        phases: The timeline; only the last states of a long one.
        phases_skipped: States that are left out before them.
        whole: How long all of it took.
        memory: How memory went.
        memory_facts: The same in numbers.
        owners: Who held most of it.
        settings: The settings that matter, their values in words.
        findings: What checks had warned of.
        cascades: What failed because of it.
        log: Lines of the log.
        log_path: Where all of it is.
        timeline: The states as they are, for a chart.
        footer: Who made the page, and when.
        is_as_asked: It ended as asked.
    """

    title: str
    lead: str
    facts: tuple[Fact, ...]
    remedy: str
    next_command: str
    reasons: tuple[str, ...]
    evidence: tuple[str, ...]
    notes: tuple[str, ...]
    phases: tuple[PhaseShown, ...]
    phases_skipped: int
    whole: str
    memory: MemoryEvidence | None
    memory_facts: tuple[Fact, ...]
    owners: tuple[Owner, ...]
    settings: tuple[SettingShown, ...]
    findings: tuple[Finding, ...]
    cascades: tuple[str, ...]
    log: tuple[LogLine, ...]
    log_path: str
    timeline: tuple[Phase, ...]
    footer: str
    is_as_asked: bool

    @property
    def has_root(self) -> bool:
        """Whether the line that tells is among those of the log."""
        return any(line.is_root for line in self.log)


def contents(report: Report) -> Contents:
    """Return what a page about a report shows.

    Args:
        report: The report, presentable already.
    """
    title, lead = _headline(_prose(report.summary))
    log = excerpt(report.log_tail, lines=report.log_lines, root=report.line_number)
    return Contents(
        title=title,
        lead=lead,
        facts=tuple(_facts(report)),
        remedy=_prose(report.remedy),
        next_command=report.next_command.strip("\n"),
        reasons=tuple(map(_prose, report.reasons[:ITEMS_SHOWN])),
        evidence=tuple(_evidence(report, log)),
        notes=tuple(map(_prose, report.notes[:ITEMS_SHOWN])),
        phases=tuple(_phases(report.phases)),
        phases_skipped=max(len(report.phases) - PHASES_SHOWN, 0),
        whole=duration(_whole_s(report.phases)),
        memory=report.memory,
        memory_facts=tuple(_memory_facts(report.memory, report.available_gib)),
        owners=tuple(_owners(report.memory)),
        settings=tuple(_setting(setting) for setting in report.settings[: 2 * ITEMS_SHOWN]),
        findings=tuple(_finding(finding) for finding in report.findings[:ITEMS_SHOWN]),
        cascades=tuple(map(as_line, report.cascades[:ITEMS_SHOWN])),
        log=log,
        log_path=as_line(str(report.log_path)),
        timeline=tuple(report.phases[-PHASES_SHOWN:]),
        footer=f"supervise {report.version}, {_moment(report.generated_unix_s)} UTC",
        is_as_asked=report.code == ExitCode.STOPPED,
    )


def _headline(summary: str) -> tuple[str, str]:
    """Return the first sentence, and the others; one that is too long for a title is all there again below it."""
    first, *others = _SENTENCE_END.split(summary, maxsplit=1)
    return (first, "".join(others)) if len(first) <= LONGEST_TITLE else (abbreviated(first, LONGEST_TITLE), summary)


def _facts(report: Report) -> Iterator[Fact]:
    code = ExitCode(report.code)
    yield Fact("Exit code", CODES[code], str(report.code))
    if code is not ExitCode.STOPPED:
        yield Fact("Cause", CONFIDENCES[report.confidence], report.cause)
    if report.root:
        yield Fact("Failed first", _prose(report.root))
    if report.phase:
        yield Fact("During", "", _value(report.phase))
    if code is not ExitCode.STOPPED:
        yield Fact("A retry", RETRIES[report.retry])
    if report.signature:
        row = _value(report.signature)
        # What the explanation concludes by itself, without a row of the signature file, has a name of one word.
        yield Fact("Known as", f"see {SIGNATURES}#{row}" if "." in row else "", row)


def _phases(phases: Sequence[Phase]) -> Iterator[PhaseShown]:
    whole_s = _whole_s(phases)
    style = "%H:%M:%S" if whole_s < _DAY_S else "%m-%d %H:%M:%S"
    for phase in phases[-PHASES_SHOWN:]:
        began = datetime.fromtimestamp(phase.began_at, UTC).strftime(style)
        share = (phase.lasted_s or 0.0) / whole_s if whole_s else 0.0
        yield PhaseShown(_value(phase.name), began, duration(phase.lasted_s), share)


def _whole_s(phases: Sequence[Phase]) -> float:
    return sum(phase.lasted_s or 0.0 for phase in phases)


def _memory_facts(memory: MemoryEvidence | None, available_gib: float | None) -> Iterator[Fact]:
    if memory is not None:
        if memory.points:
            lowest = min(point.headroom_bytes for point in memory.points)
            yield Fact("Headroom at the end", f"{size(memory.points[-1].headroom_bytes)}, at the lowest {size(lowest)}")
        yield Fact("Floor", size(memory.floor_bytes))
        if memory.limit_bytes is not None:
            where = f", of {_value(memory.limit_of)}" if memory.limit_of else ""
            yield Fact("Limit", f"{size(memory.limit_bytes)}{where}")
        yield Fact("Memory of the node", size(memory.total_bytes))
        kills = [
            f"{count} {where}"
            for count, where in (
                (memory.cgroup_oom_kills, "in the engine's cgroups"),
                (memory.node_oom_kills, "on the node"),
            )
            if count is not None
        ]
        if kills:
            yield Fact("Kills for memory", ", ".join(kills))
    if available_gib is not None:
        yield Fact("Last avail mem that the engine printed", f"{available_gib:.2f} GiB")


def _owners(memory: MemoryEvidence | None) -> Iterator[Owner]:
    if memory is None:
        return
    for owner in memory.owners[:ITEMS_SHOWN]:
        share = owner.bytes / memory.total_bytes if memory.total_bytes else 0.0
        yield Owner(_value(owner.name), "" if owner.pid is None else str(owner.pid), size(owner.bytes), share)


def _setting(setting: SettingShown) -> SettingShown:
    return SettingShown(_value(setting.name), _value(_words_of(setting.value)), setting.layer, _value(setting.source))


def _finding(finding: Finding) -> Finding:
    return replace(finding, rule=_value(finding.rule), message=_prose(finding.message), remedy=_prose(finding.remedy))


def _words_of(value: Any) -> str:
    match value:
        case None:
            return "(not set)"
        case "":
            return "(left out)"
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def _evidence(report: Report, log: Sequence[LogLine]) -> Iterator[str]:
    """Yield the lines that show it; those that only end the log stand there, and nobody has to read them twice."""
    elsewhere = {line.text for line in log if not line.is_root}
    for line in map(as_line, report.evidence[:ITEMS_SHOWN]):
        if line not in elsewhere:
            yield line


def _prose(text: str) -> str:
    return abbreviated(shortened(" ".join(text.split())), LONGEST_PROSE)


def _value(text: str) -> str:
    return abbreviated(" ".join(text.split()), LONGEST_VALUE)


def _moment(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
