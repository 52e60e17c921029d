"""``supervise diagnose``: a verdict after the fact, from any SGLang log or from a run's directory."""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from entrypoint.cause import Cause, Confidence
from entrypoint.cli.parse import Call
from entrypoint.cli.streams import complain
from entrypoint.engine.signature_index import SignatureIndex, signature_index
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings.redaction import Masker
from entrypoint.tell import report
from entrypoint.tell.board import Phase
from entrypoint.tell.files import PRIVATE_DIRECTORY
from entrypoint.tell.next_command import next_command
from entrypoint.tell.presentable import presentable
from entrypoint.tell.report_contents import contents
from entrypoint.tell.report_markdown import markdown
from entrypoint.tell.run_records import RunRecords, is_run_directory, log_names, read_records
from entrypoint.verdict.evidence import LogEvidence, RankEnd
from entrypoint.verdict.explain import explain
from entrypoint.verdict.log_reading import OnProgress, read_logs
from entrypoint.verdict.logfile import STANDARD_INPUT, LogFile, is_packed
from entrypoint.verdict.rank_logs import rank_logs
from entrypoint.verdict.verdict import Verdict

NAMES_SHOWN = 5
PATIENCE_S = 1.0
"""Seconds of reading after which somebody who watches is shown how far it is."""
_SURE = frozenset({Confidence.CERTAIN, Confidence.PROBABLE})
_SEEN_BY_THE_RUN_ALONE = frozenset(
    {Cause.SELF_CHECK, Cause.SUPERVISOR, Cause.STOPPED, Cause.HANG, Cause.CONFIGURATION, Cause.STORAGE, Cause.DEVICE}
)
"""Causes that no line of the engine's log need show: the supervisor saw them itself."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known after reading.

    Attributes:
        verdict: Why it ended.
        ends: The end of each rank.
        records: What a run's directory held of each rank; empty for mere logs.
        notes: What else should be said.
    """

    verdict: Verdict
    ends: tuple[RankEnd, ...]
    records: Mapping[int, RunRecords]
    notes: tuple[str, ...]


def perform(call: Call) -> int:
    """Print why a server ended; return 0 when that could be read, whatever the verdict."""
    options = call.options
    index = signature_index(options.signatures)
    with _progress() as on_progress:
        diagnosis = diagnose(options.where, index, on_progress)
    page = _page(diagnosis)
    masker = Masker([])
    if options.output is not None:
        _write(page, options.output, masker)
    if options.format == "json":
        sys.stdout.write(json.dumps(presentable(page, masker).data(), indent=2, default=str) + "\n")
    else:
        sys.stdout.write(markdown(contents(presentable(page, masker))))
    return 0


def diagnose(where: Sequence[str], index: SignatureIndex, on_progress: OnProgress) -> Diagnosis:
    """Return why a server ended.

    Args:
        where: Log files, ``-`` for the standard input, or one run directory.
        index: What lines can mean.
        on_progress: Told after each block which file is being read.

    Raises:
        SuperviseError: Nothing there can be read.
    """
    if "" in where:
        raise SuperviseError(
            "One of the names is empty.",
            remedy="Name a log of SGLang, a run directory, or - for the standard input; is a variable unset?",
            code=ExitCode.USAGE,
        )
    if (directory := _listed(where)) is not None:
        return _of_directory(directory, index, on_progress)
    directories = [Path(name) for name in where if name != STANDARD_INPUT and Path(name).is_dir()]
    if not directories:
        return _of_logs(read_logs(where, index, on_progress), {}, ())
    if len(where) > 1:
        raise SuperviseError(
            f"{directories[0]} is a directory, and there is more than that.",
            remedy="Give one run directory, or one or several log files.",
            code=ExitCode.USAGE,
        )
    return _of_directory(directories[0], index, on_progress)


def _listed(where: Sequence[str]) -> Path | None:
    """Return the run directory whose contents are named one by one, as the shell does for ``RUN_DIR/*``."""
    parents = {Path(name).parent for name in where}
    listed = len(parents) == 1 and any(Path(name).name == "plan.json" for name in where)
    return parents.pop() if listed else None


def _of_directory(directory: Path, index: SignatureIndex, on_progress: OnProgress) -> Diagnosis:
    if not is_run_directory(directory):
        return _of_files(_files_of(directory), index, on_progress)
    logs = read_logs(names, index, on_progress) if (names := log_names(directory)) else {0: LogEvidence("")}
    notes = () if names else (f"{directory} holds no log of an engine: none was started, or it is gone.",)
    return _of_logs(logs, {rank: read_records(directory, rank) for rank in logs}, notes)


def _files_of(directory: Path) -> list[str]:
    names = [str(path) for path in sorted(directory.iterdir()) if path.is_file() and not path.name.startswith(".")]
    if not names:
        raise SuperviseError(
            f"{directory} holds no files.",
            remedy="Give a run directory below logs.dir, or the log files themselves.",
            code=ExitCode.USAGE,
        )
    return names


def _of_files(names: Sequence[str], index: SignatureIndex, on_progress: OnProgress) -> Diagnosis:
    """Return what a directory's files tell: where some are logs of an engine, the others are left out."""
    logs = read_logs(names, index, on_progress)
    strange = {log.name for log in logs.values() if _is_strange(log)}
    of_engines = [name for log in rank_logs(names) if log.names[-1] not in strange for name in log.names]
    if not strange or not of_engines:
        return _of_logs(logs, {}, ())
    left_out = [Path(name).name for name in sorted(strange)]
    more = f" and {len(left_out) - NAMES_SHOWN} more" if len(left_out) > NAMES_SHOWN else ""
    note = f"Left out as no log of SGLang: {', '.join(left_out[:NAMES_SHOWN])}{more}."
    return _of_logs(read_logs(of_engines, index, on_progress), {}, (note,))


def _of_logs(logs: Mapping[int, LogEvidence], records: Mapping[int, RunRecords], notes: tuple[str, ...]) -> Diagnosis:
    ends = tuple(_end(rank, log, records.get(rank, RunRecords())) for rank, log in sorted(logs.items()))
    verdict = explain(ends)
    said = [found.verdict for found in records.values() if found.verdict is not None]
    cuts = tuple(log.cut for log in logs.values() if log.cut)
    strange = tuple(_strange_note(log) for log in logs.values() if _is_strange(log))
    if len(strange) == len(ends) and verdict.confidence is Confidence.UNKNOWN:
        verdict = replace(verdict, summary=strange[0], remedy="Name what the engine itself has printed.")
    if said and _is_better(said[0], verdict):
        besides = tuple(note for found in records.values() for note in found.notes)
        return Diagnosis(said[0], ends, records, (*notes, *cuts, "The run itself came to this verdict.", *besides))
    other = tuple(f"The run itself said: {each.summary}" for each in said if not _is_same(each, verdict))
    return Diagnosis(verdict, ends, records, (*notes, *cuts, *strange, *other))


def _end(rank: int, log: LogEvidence, records: RunRecords) -> RankEnd:
    phase = records.died_in or (log.phases[-1].name if log.phases else "")
    was_ready = records.was_ready or any(seen.name == "ready" for seen in log.phases)
    return RankEnd(
        rank,
        phase,
        log,
        was_ready=was_ready,
        status=records.status,
        memory=records.memory,
        lived_s=records.lived_s,
        unasked=records.unasked,
    )


def _is_same(said: Verdict, found: Verdict) -> bool:
    """Return whether two verdicts name the same cause, in whatever words."""
    return (said.cause, said.signature, said.confidence) == (found.cause, found.signature, found.confidence)


def _is_better(said: Verdict, found: Verdict) -> bool:
    """Return whether the run knew more than its log shows."""
    return said.cause in _SEEN_BY_THE_RUN_ALONE and found.confidence not in _SURE


def _strange_note(log: LogEvidence) -> str:
    name = "The standard input" if log.name == STANDARD_INPUT else log.name or "What is there"
    return f"{name} does not look like a log of SGLang: none of its {log.lines} lines is known."


def _is_strange(log: LogEvidence) -> bool:
    """Return whether nothing in a log is of the engine's making, not even the stamp before a line."""
    known = log.phases or log.hits or log.child_deaths or log.stop_line is not None
    return not known and log.began_unix_s is None


# What is printed and written


def _page(diagnosis: Diagnosis) -> report.Report:
    end = _root(diagnosis)
    records = diagnosis.records.get(end.rank, RunRecords())
    path = Path(end.log.name)
    return report.Report.of(
        diagnosis.verdict,
        phases=records.phases or _phases(end.log),
        log_tail=end.log.tail,
        log_path=path,
        log_lines=end.log.lines,
        notes=diagnosis.notes,
        memory=end.memory,
        available_gib=end.log.available_gib,
        next_command=next_command(diagnosis.verdict, log_path=path, words=None) if _is_plain(path) else "",
    )


def _is_plain(path: Path) -> bool:
    """Return whether a log can be looked into as it is: a file for itself, and no part of one that several share."""
    return path.is_file() and not is_packed(path)


def _root(diagnosis: Diagnosis) -> RankEnd:
    """Return the end of the rank that failed first, as the verdict names it."""
    named = (end for end in diagnosis.ends if f"rank {end.rank} " in f"{diagnosis.verdict.root} ")
    return next(named, diagnosis.ends[0])


def _phases(log: LogEvidence) -> tuple[Phase, ...]:
    """Return the phases that a log shows, as far as it has times."""
    timed = [(phase.name, phase.unix_s) for phase in log.phases if phase.unix_s is not None]
    ends = [*(at for _, at in timed[1:]), log.ended_unix_s][: len(timed)]
    return tuple(
        Phase(name, began, None if ended is None else max(0.0, ended - began))
        for (name, began), ended in zip(timed, ends, strict=True)
    )


def _write(page: report.Report, directory: Path, masker: Masker) -> None:
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        report.write(page, directory, 0, masker)
    except OSError as error:
        raise SuperviseError(
            f"The report cannot be written to {directory}: {error.strerror or error}.",
            remedy="Name a directory that you may write to.",
            code=ExitCode.DIRECTORY_UNUSABLE,
        ) from error
    complain(f"supervise: report written to {directory}/report-0.md, .json and .html\n")


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Show a bar to somebody who watches, once it takes long enough to be worth one."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    began = time.monotonic()
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    tasks: dict[str, TaskID] = {}

    def on_progress(file: LogFile) -> None:
        if time.monotonic() - began < PATIENCE_S:
            return
        bar.start()
        if file.name not in tasks:
            tasks[file.name] = bar.add_task(Path(file.name).name, total=file.size_bytes)
        bar.update(tasks[file.name], completed=file.read_bytes)

    try:
        yield on_progress
    finally:
        bar.stop()
