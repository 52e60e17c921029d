"""The faults of the fake engine, and the board on which a test sets them.

The board is a directory that the environment variable FAKE_ENGINE names. ``switches.json`` holds one set of switches
for each start of the engine, the last one for all that follow; ``starts.jsonl`` gets a line from each start. Switches
that concern serving are read again for every request, so that a test may turn them while the engine runs.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

BOARD_VARIABLE = "FAKE_ENGINE"


class Phase(StrEnum):
    """Where a start can end or hang, in order."""

    START = "start"
    """Before the first line with a time."""
    INIT = "init"
    """Between the begin and the end of the process groups."""
    LOAD = "load"
    """In the middle of the bar of weight files."""
    CAPTURE = "capture"
    """In the middle of the bar of graphs."""
    UP = "up"
    """The port answers, the warm-up has not begun."""
    WARMUP = "warmup"
    """The warm-up request is on its way."""
    READY = "ready"
    """Requests are served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What the engine does in one start; the defaults make a healthy one that is ready in a fraction of a second.

    Args:
        start_s: How long it is silent before the first line with a time (imports).
        load_s: How long the weights take.
        shards: Into how many steps of the loading bar.
        capture_s: How long graphs take; 0 captures none, as on a CPU.
        warmup_s: How long the port is open before the engine is ready.
        ends_at: The phase in which it ends by itself.
        ends_by: How: ``exit N``, a signal's name (to its own main process), ``scheduler SIGNAL`` (to its scheduler, and
            the main process notices), ``scheduler exception``.
        ends_after_s: How long after the phase has begun.
        last_words: What it prints before, without a time.
        hangs_at: The phase in which it falls silent for ever.
        ready_status: What /ready, /health and /ping answer once it is ready.
        inference_status: What inference answers; 200 is healthy.
        inference_s: How long an answer takes.
        thinks: Whether the model thinks at all.
        calls_as_text: Whether tool calls stay in the text although a parser is configured.
        loads: Entries of the rank's record in /v1/loads, over what is true.
        spins_at: The phase in which it falls silent for ever and computes, as a spinning collective does.
        eats_at: The phase from which on one of its processes takes memory until it is killed; all else goes on, unless
            it also hangs there.
        eats_who: Which process: ``main``, ``scheduler`` or ``detokenizer``.
        eats_mib_per_s: How fast.
        says: What it prints when it is ready, as it is.
        flood_lines: How many lines it prints when it is ready.
        flood_line_bytes: How long each of them is, about.
        huge_line_bytes: Length of one line that it prints when it is ready; 0 prints none.
        closes_output: Whether it closes standard output and error when it is ready.
        children_stay: Whether scheduler and detokenizer outlive the main process, deaf to everything but SIGKILL.
        orphan: Whether it leaves a process that has its own session, and init or a subreaper as parent.
        orphan_line_every_s: How often that orphan prints a line; 0 is never.
        drain_poll_s: How often a draining engine looks for requests; the real one every 5 s.
        drains: Whether it ever finds that none is left.
        release_s: How long the schedulers take to release their memory in a clean stop.
        stop_status: Exit status of a clean stop.
    """

    start_s: float = 0.02
    load_s: float = 0.04
    shards: int = 4
    capture_s: float = 0.02
    warmup_s: float = 0.02
    ends_at: str = ""
    ends_by: str = "exit 1"
    ends_after_s: float = 0
    last_words: str = ""
    hangs_at: str = ""
    spins_at: str = ""
    eats_at: str = ""
    eats_who: str = "main"
    eats_mib_per_s: float = 512
    says: str = ""
    ready_status: int = 200
    inference_status: int = 200
    inference_s: float = 0
    thinks: bool = True
    calls_as_text: bool = False
    loads: dict[str, Any] = field(default_factory=dict)
    flood_lines: int = 0
    flood_line_bytes: int = 120
    huge_line_bytes: int = 0
    closes_output: bool = False
    children_stay: bool = False
    orphan: bool = False
    orphan_line_every_s: float = 0
    drain_poll_s: float = 0.05
    drains: bool = True
    release_s: float = 0
    stop_status: int = 0

    def __post_init__(self) -> None:
        for name in ("ends_at", "hangs_at", "spins_at", "eats_at"):
            if getattr(self, name):
                Phase(getattr(self, name))


@dataclass(frozen=True, slots=True)
class Board:
    """The directory that test and engine share.

    Args:
        directory: Where it is; None is an engine without faults that keeps no record.
    """

    directory: Path | None

    @classmethod
    def from_environment(cls) -> "Board":
        """Find the board that this process was given."""
        named = os.environ.get(BOARD_VARIABLE)
        return cls(Path(named) if named else None)

    def write(self, starts: Sequence[Switches]) -> None:
        """Set the switches, each for one start, at once."""
        staging = self._file("switches.new")
        staging.write_text(json.dumps([asdict(switches) for switches in starts]))
        staging.replace(self._file("switches.json"))

    def read(self, start: int) -> Switches:
        """Return the switches of a start, the first one being 0."""
        if self.directory is None or not self._file("switches.json").exists():
            return Switches()
        starts = json.loads(self._file("switches.json").read_text())
        return Switches(**starts[min(start, len(starts) - 1)])

    def record(self, start: dict[str, Any]) -> None:
        """Add a start to the journal."""
        if self.directory is not None:
            with self._file("starts.jsonl").open("a") as journal:
                journal.write(json.dumps(start) + "\n")

    def starts(self) -> list[dict[str, Any]]:
        """Return the journal."""
        if self.directory is None or not self._file("starts.jsonl").exists():
            return []
        return [json.loads(line) for line in self._file("starts.jsonl").read_text().splitlines()]

    def note_printed(self) -> None:
        """Note that all is printed that was to be printed when the engine is ready."""
        if self.directory is not None:
            self._file("printed").touch()

    def has_printed(self) -> bool:
        """Return whether that was noted."""
        return self._file("printed").exists()

    def _file(self, name: str) -> Path:
        assert self.directory is not None
        return self.directory / name
