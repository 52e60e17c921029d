"""Prints the flags that an engine takes, as JSON; started with the engine's own Python.

The script stands alone: it imports the standard library and sglang, and runs on every Python that sglang runs on.
It exits 0 with a flag table (read by ``entrypoint.engine.flags``), or 3 with ``{"error": …, "kind": …}``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import inspect
import json
import os
import platform
import re
import sys
import traceback
from pathlib import Path
from typing import Any

EXIT_FAILED = 3
SCHEMA_VERSION = 1
HELP_CHARACTERS = 200
ERROR_CHARACTERS = 500

REPLACEMENT = re.compile(r"(?:use|replaced by|in favou?r of)\s*:?\s*[`'\"]?(--[a-z0-9][^\s`'\",;)]*)", re.IGNORECASE)
FIRST_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z-])")
DEPRECATED = re.compile(r"^\W*(?:\[|\()?deprecated\b", re.IGNORECASE)


def main() -> int:
    """Print the flag table, or the reason why there is none, and return the exit status."""
    output = _take_stdout()
    _search_the_working_directory_as_the_engine_does()
    kind = "import"
    try:
        server_args = _import_server_args()
        kind = "parser"
        document = describe(server_args)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever stops the import is the answer
        document = {"error": _last_line(error), "kind": kind}
    with os.fdopen(output, "w", encoding="utf-8") as stream:
        json.dump(document, stream, separators=(",", ":"))
    return EXIT_FAILED if "error" in document else 0


def describe(server_args: Any) -> dict[str, Any]:
    """Return the flag table of a ``ServerArgs`` class."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    server_args.add_cli_args(parser)
    flags = [
        flag
        for action in parser._actions  # noqa: SLF001 - argparse has no public way to list what it accepts
        if action.option_strings and action.dest != "help"
        for flag in _describe_action(action)
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "version": _version(),
        "python_version": platform.python_version(),
        "flags": flags,
    }


def _take_stdout() -> int:
    """Keep standard output for the table alone: what libraries print goes to standard error."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    return output


def _search_the_working_directory_as_the_engine_does() -> None:
    """Replace this script's directory on the search path by what ``python -m`` puts there.

    The engine starts as a module, so a source tree in the working directory counts there and must count here; the
    supervisor's modules beside this file must not.
    """
    here = Path(__file__).resolve().parent
    if sys.path and Path(sys.path[0]).resolve() == here:
        sys.path[0] = str(Path.cwd())


def _import_server_args() -> Any:
    """Return the engine's ``ServerArgs``, with its plug-ins loaded as ``sglang serve`` does."""
    try:
        from sglang.srt.plugins import load_plugins  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        if error.name != "sglang.srt.plugins":
            raise
    else:
        load_plugins()
    from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found]

    return ServerArgs


def _version() -> str:
    """Return the version of the installed distribution, or what the package says of itself."""
    try:
        return importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get("sglang"), "__version__", "unknown"))


def _describe_action(action: argparse.Action) -> list[dict[str, Any]]:
    """Return one flag per meaning: ``--x`` and ``--no-x`` share an action, and store opposites."""
    if isinstance(action, argparse.BooleanOptionalAction):
        negative = [option for option in action.option_strings if option.startswith("--no-")]
        positive = [option for option in action.option_strings if option not in negative]
        return [_flag(action, positive, "true"), _flag(action, negative, "false")]
    return [_flag(action, list(action.option_strings), _constant(action))]


def _flag(action: argparse.Action, spellings: list[str], constant: str | None) -> dict[str, Any]:
    """Return what is said about the given spellings of one action."""
    text = _help(action)
    deprecated = _is_deprecated(action, text)
    described = {
        "spellings": spellings,
        "dest": action.dest,
        "kind": _kind(action.nargs),
        "type_name": _type_name(action.type),
        "choices": _choices(action.choices),
        "constant": constant,
        "deprecated": deprecated,
        "retired": getattr(action, "error_message", None) is not None,
        "replacement": _replacement(action, text) if deprecated else None,
        "metavar": action.metavar if isinstance(action.metavar, str) else None,
        "help": FIRST_SENTENCE_END.split(text, maxsplit=1)[0][:HELP_CHARACTERS],
    }
    return {key: value for key, value in described.items() if value not in (None, False, "")}


def _help(action: argparse.Action) -> str:
    """Return the help text on one line; a retired flag's error message serves where there is no help."""
    text = action.help if action.help and action.help != argparse.SUPPRESS else getattr(action, "error_message", None)
    return " ".join((text or "").split())


def _kind(nargs: int | str | None) -> str:
    """Return how many words follow the flag."""
    if nargs is None:
        return "one"
    if nargs == 0:
        return "bare"
    return {"?": "optional", "*": "any"}.get(str(nargs), "several")


def _constant(action: argparse.Action) -> str | None:
    """Return what the flag stores without words, or instead of the words that follow it."""
    if action.nargs in (0, argparse.OPTIONAL):
        return _word(action.const)
    return _word(getattr(action, "const_value", None))


def _word(value: object) -> str | None:
    """Return a stored constant as the word that would mean the same."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type_name(converter: Any) -> str:
    """Return the name of what converts a word; json's own loader is named by what it reads."""
    if converter is None:
        return "str"
    if getattr(inspect.getmodule(converter), "__name__", "").split(".")[0] in {"json", "orjson"}:
        return "json"
    return str(getattr(converter, "__name__", type(converter).__name__))


def _choices(choices: Any) -> list[str] | None:
    """Return the words allowed, in the order declared; sets have none, so they are sorted."""
    if choices is None:
        return None
    words = [str(choice) for choice in choices]
    return sorted(words) if isinstance(choices, (set, frozenset)) else words


def _is_deprecated(action: argparse.Action, text: str) -> bool:
    """Return whether the action's class or its help calls the flag itself deprecated."""
    return type(action).__name__.startswith("Deprecated") or DEPRECATED.search(text) is not None


def _replacement(action: argparse.Action, text: str) -> str | None:
    """Return what to write instead, where the action or its help names it."""
    named = getattr(action, "new_flag", None)
    if named:
        return str(named)
    match = REPLACEMENT.search(text)
    return match.group(1).rstrip(".") if match else None


def _last_line(error: BaseException) -> str:
    """Return an exception as the last line of its traceback, cut to a readable length."""
    lines = [line for line in "".join(traceback.format_exception_only(type(error), error)).splitlines() if line.strip()]
    return lines[-1].strip()[:ERROR_CHARACTERS]


if __name__ == "__main__":
    STATUS = main()
    # Libraries of accelerators are known to crash or hang while Python takes them down; the answer is out already.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(STATUS)
