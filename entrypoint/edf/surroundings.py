"""What an EDF is read in: the host's variables and its files."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SEARCH_VARIABLE = "EDF_PATH"
SUFFIX = ".toml"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an EDF is used.

    Attributes:
        environ: The host's variables.
        cwd: The directory of whoever calls srun, from which ``./`` counts.
        home: The home directory.
    """

    environ: Mapping[str, str]
    cwd: Path
    home: Path

    def search_path(self) -> tuple[Path, ...]:
        """Return the directories in which EDFs are looked up by name."""
        named = [part for part in self.environ.get(SEARCH_VARIABLE, "").split(os.pathsep) if part]
        return tuple(map(Path, named)) or (self.home / ".edf",)

    def locate(self, word: str) -> Path | None:
        """Return the file that ``srun --environment=WORD`` would read, or None."""
        if word.startswith(("/", "./")):
            path = self.cwd / word
            return path if path.is_file() else None
        candidates = (directory / f"{word.removesuffix(SUFFIX)}{SUFFIX}" for directory in self.search_path())
        return next((path for path in candidates if path.is_file()), None)
