"""The test's side of the fake engine."""

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from fake_switches import BOARD_VARIABLE, Board, Switches

MODULE = "sglang.launch_server"
SITE = Path(__file__).with_name("fake_site")


@dataclass(frozen=True, slots=True)
class FakeEngine:
    """An engine that looks like SGLang from outside, with faults.

    Args:
        directory: Where switches and journal lie.
    """

    directory: Path

    @property
    def python(self) -> str:
        """The interpreter for engine.python."""
        return sys.executable

    @property
    def mark(self) -> str:
        """The entry in the environment of every process of this engine, and of whoever started it."""
        return f"{BOARD_VARIABLE}={self.directory}"

    @property
    def environment(self) -> dict[str, str]:
        """What the engine needs in its environment, so that its interpreter imports the fake sglang."""
        return {"PYTHONPATH": str(SITE), BOARD_VARIABLE: str(self.directory)}

    def switch(self, *starts: Switches) -> None:
        """Set the faults: one set for each start, the last one for all that follow."""
        Board(self.directory).write(starts)

    def turn(self, **changes: Any) -> None:
        """Set the faults of every start from now on, a running engine's included."""
        self.switch(Switches(**changes))

    def starts(self) -> list[dict[str, Any]]:
        """Return what each start said of itself: ``pid`` and ``argv``."""
        return Board(self.directory).starts()

    def has_printed(self) -> bool:
        """Return whether all is printed that was to be printed when the engine is ready."""
        return Board(self.directory).has_printed()

    def processes(self) -> dict[str, list[int]]:
        """Return the process ids by name of every process of this engine that runs, orphans included.

        They are found by the board in their environment, wherever they have gone in the tree of processes.
        """
        found: dict[str, list[int]] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.status() != psutil.STATUS_ZOMBIE and self._owns(process):
                    found.setdefault(process.name(), []).append(process.pid)
        return found

    def _owns(self, process: psutil.Process) -> bool:
        started_as = process.cmdline()[1:3]  # a warden has the engine's whole command, but further on
        return started_as == ["-m", MODULE] and process.environ().get(BOARD_VARIABLE) == str(self.directory)
