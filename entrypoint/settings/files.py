"""Settings files: which are read, and what can be wrong with one before its keys are looked at."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import tomli

from entrypoint.settings.locate import Lines, locate
from entrypoint.settings.origin import KeyPath, Layer, Origin, dotted
from entrypoint.settings.problems import Problem
from entrypoint.settings.reading import Reading, read_tree

CONFIG_VARIABLE = "SUPERVISE_CONFIG"
"""Environment variable that names the settings file when the command line names none."""

LARGEST_BYTES = 1 << 20
"""A larger file is a mistake, such as a checkpoint named in place of the settings."""

_SECRET = re.compile(r"api_?key(?!_file)|token(?!s|izer|_file)|secret|passw|credential|\benv\b", re.IGNORECASE)
_TABLE = re.compile(r"\s*\[")
_SETS_KEY = re.compile(r"\s*(\[|[^=\"']+=|$)")
_FENCE = re.compile("\"\"\"|'''")
_EXCERPT_BEFORE = 60
_EXCERPT_AFTER = 40
_LARGEST_INTEGER = 2**63


def choose(config_files: Sequence[Path], environ: Mapping[str, str], cwd: Path, etc: Path) -> tuple[Path, ...]:
    """Return the files to read, weakest first.

    Those of the command line, else the one that ``SUPERVISE_CONFIG`` names, else ``supervise.toml`` of the working
    directory, else the machine's. Named files are returned even if they do not exist: reading them says so.
    """
    if config_files:
        return tuple(cwd / path for path in config_files)
    if named := environ.get(CONFIG_VARIABLE):
        return (cwd / named,)
    return tuple(path for path in (cwd / "supervise.toml", etc) if _is_there(path))[:1]


def read(path: Path) -> Reading:
    """Read one settings file."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        return _unusable(path, "the file does not exist", f"Create it, or correct --config or {CONFIG_VARIABLE}.")
    except IsADirectoryError:
        return _unusable(path, "this is a directory, not a file", "Name the TOML file itself.")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return _unusable(path, f"the file cannot be read: {reason}", "Make it readable for this user.")
    return parse(content, path)


def parse(content: bytes, path: Path) -> Reading:
    """Read the content of a settings file; the path is for messages only."""
    if len(content) > LARGEST_BYTES:
        return _unusable(path, "the file is larger than 1 MiB", "Name a settings file; none needs to be that large.")
    try:
        # Editors of other systems put a byte order mark in front, which TOML does not know.
        text = content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return _unusable(Path(f"{path}:{line}"), "the file is not UTF-8 text", "Save it as UTF-8.")
    try:
        tree = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        return Reading(problems=(_syntax(error, path),))
    except (ValueError, RecursionError) as error:
        return _unusable(path, f"the file is not usable TOML: {error}", "Nest less deeply and write shorter values.")
    lines = locate(text)
    oversized = [_oversized(key, path, lines) for key in _oversized_keys(tree)]
    if oversized:
        return Reading(problems=tuple(oversized))
    return read_tree(tree, lambda key: Origin(Layer.FILE, _place(path, lines.of(key))))


def _is_there(path: Path) -> bool:
    """Say whether something is at a path, were it only a directory or a link to nothing: reading it says what."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _place(path: Path, line: int | None) -> str:
    return str(path) if line is None else f"{path}:{line}"


def _unusable(path: Path, message: str, remedy: str) -> Reading:
    return Reading(problems=(Problem(str(path), message, remedy),))


def _syntax(error: tomli.TOMLDecodeError, path: Path) -> Problem:
    return Problem(
        _place(path, error.lineno),
        f"not valid TOML: {error.msg[:1].lower()}{error.msg[1:]}",
        "Correct that line; texts need quotes, truth values are true and false.",
        _excerpt(error),
    )


def _excerpt(error: tomli.TOMLDecodeError) -> tuple[str, ...]:
    """Return the line in error with a caret below, unless a secret may be on it."""
    above = error.doc.split("\n")[: error.lineno]
    if _may_hold_secret(above):
        return ("(the line is not shown, because it may hold a secret)",)
    start = max(0, error.colno - 1 - _EXCERPT_BEFORE)
    cut = above[-1][start : error.colno - 1 + _EXCERPT_AFTER]
    label = f"{error.lineno} | "
    visible = "".join(character if character.isprintable() else " " for character in cut)
    return (f"{label}{visible}".rstrip(), f"{' ' * (len(label) + error.colno - 1 - start)}^")


def _may_hold_secret(lines: Sequence[str]) -> bool:
    """Say whether the last line may show a secret, given all lines above it; in doubt it may.

    The file cannot be parsed, so its looks decide: a line that sets a key speaks for itself, unless it stands in the
    table of the engine's variables; any other line may go on with what a line above began.
    """
    *above, line = lines
    if _SECRET.search(line):
        return True
    table = next((earlier for earlier in reversed(above) if _TABLE.match(earlier)), "")
    inside_text = sum(len(_FENCE.findall(earlier)) for earlier in above) % 2 == 1
    if _SETS_KEY.match(line) and not inside_text:
        return _SECRET.search(table) is not None
    return any(_SECRET.search(earlier) for earlier in above)


def _oversized_keys(tree: Mapping[str, object]) -> Iterator[KeyPath]:
    """Yield the keys that hold an integer beyond the 64 bits of TOML, which the parser lets pass."""
    # A list of what is left instead of recursion: dotted keys nest as deep as the file is long.
    left: list[tuple[KeyPath, object]] = [((), tree)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [(path, inner) for inner in value]
        elif isinstance(value, int) and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
            yield path


def _oversized(key: KeyPath, path: Path, lines: Lines) -> Problem:
    return Problem(
        _place(path, lines.of(key)),
        f"{dotted(key)}: the number does not fit into 64 bits, the largest integer of TOML",
        "Write a smaller number.",
    )
