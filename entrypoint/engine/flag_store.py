"""Flag tables kept in files, so that a dry run checks flags without starting the engine's Python."""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrypoint.engine.flags import FlagTable

IMAGE_DIRECTORY: Final = Path("/opt/supervise/flags")
"""Where an image keeps the tables that were made when it was built."""

_MODE: Final = 0o644
"""Readable by all: a table says nothing about a user, and an image is built by another one."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the store holds for an engine.

    Attributes:
        table: The engine's flags, if a good file was found.
        source: The file that they come from.
        ignored: One sentence for each file that was there and could not be used.
    """

    table: FlagTable | None
    source: Path | None
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlagStore:
    """Tables in files named by engine; read from several directories, written to one.

    A file's name holds the engine's version and a hash of the directory that its interpreter lies in. The version
    alone would not do: two environments with the same sglang may differ in plug-ins and in what choices they
    register. The interpreter's own path would not do either: ``python`` and ``python3`` of one environment are one
    engine, and both are links to a base interpreter that many environments share.

    Attributes:
        read_only: Directories that are searched first, such as the image's.
        directory: Directory that is searched last and written to; None writes nowhere.
    """

    read_only: Sequence[Path] = (IMAGE_DIRECTORY,)
    directory: Path | None = None

    def load(self, version: str, python: Path) -> Lookup:
        """Return the table of an engine; a missing file is silent, a broken or foreign one is named."""
        ignored: list[str] = []
        own = () if self.directory is None else (self.directory,)
        for directory in (*self.read_only, *own):
            path = directory / file_name(version, python)
            try:
                table = _read(path, version)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                ignored.append(f"{path} is ignored: {error}.")
                continue
            return Lookup(table, path, tuple(ignored))
        return Lookup(None, None, tuple(ignored))

    def save(self, table: FlagTable, python: Path) -> Path | None:
        """Write a table so that a reader sees all of it or nothing; return the file, if there is a place for it.

        Raises:
            OSError: If the directory cannot be written.
        """
        if self.directory is None:
            return None
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / file_name(table.version, python)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=self.directory)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(table.to_json())
                os.fchmod(stream.fileno(), _MODE)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return path


def file_name(version: str, python: Path) -> str:
    """Return the name of the file that holds an engine's flags."""
    environment = os.path.realpath(python.parent)
    digest = hashlib.sha256(os.fsencode(environment)).hexdigest()[:12]
    return f"sglang-{version.replace('/', '_')}-{digest}.json"


def _read(path: Path, version: str) -> FlagTable:
    """Read one file and make sure that it is about the engine asked for."""
    table = FlagTable.from_json(path.read_bytes())
    if table.version != version:
        raise ValueError(f"it holds the flags of version {table.version}, not {version}")
    return table
