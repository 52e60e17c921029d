"""Gathering: an engine's output goes in as it comes, what it holds about its end comes out at any time.

Whatever the output, memory is bounded: of each signature the first few lines and the last one are kept.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from entrypoint.engine.log import FactKind, LogFact, facts_in
from entrypoint.engine.log_line import ANSI, unix_s
from entrypoint.engine.signature import SignatureHit
from entrypoint.engine.signature_index import Match, SignatureIndex, Suspect
from entrypoint.exit_status import ExitStatus
from entrypoint.settings.redaction import Masker
from entrypoint.verdict import health
from entrypoint.verdict.evidence import ChildDeath, LogEvidence, LogPhase
from entrypoint.verdict.last_lines import LastLines
from entrypoint.verdict.log_clock import LogClock
from entrypoint.verdict.telling import telling_line

FIRST_HITS = 3
"""How many lines of one signature are kept beside the last one."""
LINE_CHARACTERS = 1024
"""How much of a line a hit keeps."""
CHILD_DEATHS = 16
DEATHS = {
    "exit.init_died": "scheduler_{rank}",
    "exit.sub_crash": "{name}",
    "exit.worker_child": "process {pid}",
}
"""Signatures that tell of a process's end, and what the process is called; their field ``code`` is the exit code."""
_PHASES = {
    FactKind.SERVER_ARGUMENTS: "starting",
    FactKind.LOAD_BEGIN: "loading",
    FactKind.CAPTURE_BEGIN: "capturing",
    FactKind.HTTP_UP: "engine-up",
    FactKind.FIRED_UP: "ready",
    FactKind.WORKER_READY: "ready",
}
_STOPPING = frozenset({FactKind.SIGTERM_SEEN, FactKind.DRAINING})


@dataclass(frozen=True, slots=True)
class _Kept:
    """A hit, and where the signs of health stood when its line was printed."""

    hit: SignatureHit
    health: int
    order: int


@dataclass(frozen=True, slots=True)
class _Found:
    """A match in the lines at hand, of the signature with this number."""

    number: int
    begin: int
    end: int
    match: Match


@dataclass(slots=True)
class _Run:
    """What is known of one run of the engine; a log may hold several after one another, and the last one counts."""

    first: dict[int, list[_Kept]] = field(default_factory=dict)
    last: dict[int, _Kept] = field(default_factory=dict)
    deaths: list[ChildDeath] = field(default_factory=list)
    phases: list[LogPhase] = field(default_factory=list)
    stop_line: int | None = None
    available_gib: float | None = None
    node_rank: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether arguments that are printed now belong to another run; all ranks print theirs before any loads."""
        ready = any(phase.name == "ready" for phase in self.phases)
        return ready or self.stop_line is not None or bool(self.deaths)


class LogGatherer:
    """Gathers what one engine's log holds.

    It is fed in one thread; the evidence may be asked for in any other.

    Args:
        name: The file, as people know it.
        index: The signatures to look for.
        masker: Removes secrets from every line that is kept; by default those that their surroundings give away.
    """

    def __init__(self, name: str, index: SignatureIndex, *, masker: Masker | None = None) -> None:
        self._name = name
        self._index = index
        self._masker = masker or Masker()
        self._lock = threading.Lock()
        self._run = _Run()
        self._lines = 0
        self._bytes = 0
        self._clock = LogClock()
        self._health = 0
        self._tail = LastLines()

    def feed(self, lines: bytes) -> None:
        r"""Take the next lines.

        Args:
            lines: Complete lines, each ended by ``\n`` or ``\r``.
        """
        with self._lock:
            self._search(lines)
            self._lines += lines.count(b"\n")
            self._health += health.count(lines, 0, len(lines))
            self._clock.pass_by(lines)
            self._bytes += len(lines)
            self._tail.feed(lines)

    @property
    def signs_of_health(self) -> int:
        """How many signs of an engine that goes on working have been seen."""
        with self._lock:
            return self._health

    def evidence(self, *, cut: str | None = None) -> LogEvidence:
        """Return what has been found so far.

        Args:
            cut: What is missing of the log, in words; None where it is whole.
        """
        with self._lock:
            run = self._run
            kept = [hit for hits in run.first.values() for hit in hits] + list(run.last.values())
            tail = tuple(self._text(line.decode("utf-8", "replace")) for line in self._tail.lines())
            return LogEvidence(
                name=self._name,
                hits=tuple(self._hit(each) for each in sorted(kept, key=lambda each: each.order)),
                child_deaths=tuple(replace(death, line=self._text(death.line)) for death in run.deaths),
                phases=tuple(run.phases),
                stop_line=run.stop_line,
                available_gib=run.available_gib,
                telling=telling_line(tail),
                tail=tail,
                lines=self._lines + self._tail.is_drawn,
                began_unix_s=self._clock.first_s,
                ended_unix_s=self._clock.last_s,
                node_rank=run.node_rank,
                cut=cut,
            )

    def _hit(self, kept: _Kept) -> SignatureHit:
        hit = kept.hit
        fields = {name: self._text(value) for name, value in hit.fields.items()}
        return replace(hit, line=self._text(hit.line), fields=fields, health_after=self._health - kept.health)

    def _text(self, text: str) -> str:
        return self._masker.mask_text(ANSI.sub("", text))

    def _search(self, lines: bytes) -> None:
        spans: dict[int, list[tuple[int, int]]] = {}
        for suspect in self._index.suspects(lines):
            if suspect.may_be_fact and self._note_facts(lines, suspect):
                spans = {}
            for number in suspect.signatures:
                spans.setdefault(number, []).append((suspect.begin, suspect.end))
                if self._index.signatures[number].id in DEATHS:
                    self._note_death(lines, suspect, number)
        found = [each for number, places in spans.items() for each in self._new_matches(lines, number, places)]
        self._keep(lines, sorted(found, key=lambda each: (each.begin, each.number)))

    def _note_facts(self, lines: bytes, suspect: Suspect) -> bool:
        """Note what a line says of the run's course; return whether another run begins with it."""
        another = False
        for fact in facts_in(lines[suspect.begin : suspect.end]):
            if fact.kind is FactKind.SERVER_ARGUMENTS and self._run.is_over:
                self._run = _Run()
                another = True
            self._note_fact(lines, suspect, fact)
        return another

    def _note_fact(self, lines: bytes, suspect: Suspect, fact: LogFact) -> None:
        run = self._run
        if "available_gb" in fact.fields:
            run.available_gib = fact.number("available_gb")  # what the engine calls GB are GiB
        if fact.kind is FactKind.SERVER_ARGUMENTS and run.node_rank is None:
            run.node_rank = _whole_number(fact.fields.get("node_rank"))
        if fact.kind in _STOPPING and run.stop_line is None:
            run.stop_line = self._number(lines, suspect.begin)
        name = _PHASES.get(fact.kind)
        if name is not None and all(phase.name != name for phase in run.phases):
            number = self._number(lines, suspect.begin)
            run.phases.append(LogPhase(name, number, self._clock.at(lines, suspect.end)))

    def _note_death(self, lines: bytes, suspect: Suspect, number: int) -> None:
        match = self._index.match(lines[suspect.begin : suspect.end], number)
        deaths = self._run.deaths
        if match is None or len(deaths) >= CHILD_DEATHS:
            return
        code = _whole_number(match.fields.get("code"))
        if not code:
            return
        name = DEATHS[match.signature.id].format_map(_Fields(match.fields))
        status = ExitStatus.from_return_code(code)
        if all((death.name, death.status) != (name, status) for death in deaths):
            line = match.statement.text[:LINE_CHARACTERS]
            time_s = self._clock.at(lines, suspect.end)
            deaths.append(ChildDeath(name, status, line, self._number(lines, suspect.begin), time_s))

    def _number(self, lines: bytes, begin: int) -> int:
        return self._lines + lines.count(b"\n", 0, begin) + 1

    def _new_matches(self, lines: bytes, number: int, places: Sequence[tuple[int, int]]) -> Iterator[_Found]:
        """Yield the first few matches of a signature that are still missing, and then the last one alone."""
        missing = FIRST_HITS - len(self._run.first.get(number, ()))
        left = iter(places)
        while missing > 0:
            place = next(left, None)
            if place is None:
                return
            match = self._index.match(lines[place[0] : place[1]], number)
            if match is not None:
                missing -= 1
                yield _Found(number, *place, match)
        for begin, end in reversed(tuple(left)):
            match = self._index.match(lines[begin:end], number)
            if match is not None:
                yield _Found(number, begin, end, match)
                return

    def _keep(self, lines: bytes, found: Sequence[_Found]) -> None:
        marks, numbered, counted = self._health, self._lines, 0
        for each in found:
            marks += health.count(lines, counted, each.end)
            numbered += lines.count(b"\n", counted, each.end)
            counted = each.end
            hit = SignatureHit(
                each.match.signature,
                each.match.statement.text[:LINE_CHARACTERS],
                numbered + 1,
                unix_s=self._time(lines, each),
                rank_tags=each.match.statement.rank_tags,
                fields=each.match.fields,
            )
            kept = _Kept(hit, marks, self._bytes + each.begin)
            first = self._run.first.setdefault(each.number, [])
            if len(first) < FIRST_HITS:
                first.append(kept)
            else:
                self._run.last[each.number] = kept

    def _time(self, lines: bytes, found: _Found) -> float | None:
        """Return when a line was printed: by its own stamp, else by the last one before it."""
        before = self._clock.at(lines, found.end)
        said = found.match.statement
        if said.time is None or said.day is None:
            return before
        own = unix_s(said.time, said.day, after_s=before)
        return before if own is None else own


class _Fields(dict[str, str]):
    """Fields for a name, of which some may be missing in a user's own row."""

    def __missing__(self, key: str) -> str:
        return "?"


def _whole_number(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
