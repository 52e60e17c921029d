"""The engine's command line, built from the settings.

A flag is written by its long name only, since an abbreviation that works today is ambiguous tomorrow. What a flag
*means* is its destination: ``engine.args.tensor-parallel-size`` replaces what ``topology.tensor_parallel`` said.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from entrypoint.engine.flags import FALLBACK_ALIASES, Flag, FlagTable, destinations_without_table
from entrypoint.settings.schema import FlagValue, Settings

SECRET_DESTINATIONS = frozenset({"api_key", "admin_api_key"})
"""What never stands in a command line, which everybody on the node can read."""
MODULE = ("-m", "sglang.launch_server")


@dataclass(frozen=True, slots=True)
class Argument:
    """One flag of the engine's command line.

    Attributes:
        flag: Its long name with the dashes; a value that begins with a dash is attached.
        values: The words that follow it.
        setting: Dotted name of the setting that it comes from.
    """

    flag: str
    values: tuple[str, ...]
    setting: str

    @property
    def words(self) -> tuple[str, ...]:
        """The argument as it stands in the command line."""
        return (self.flag, *self.values)


def destination(word: str, table: FlagTable | None) -> str:
    """Return what a flag sets; a flag that nobody knows sets what it is called."""
    flag = word.partition("=")[0]
    found = table.find(flag) if table else None
    if isinstance(found, Flag):
        return found.dest
    return FALLBACK_ALIASES.get(flag, flag.removeprefix("--").replace("-", "_"))


def arguments(settings: Settings, table: FlagTable | None, gang: tuple[Argument, ...] = ()) -> tuple[Argument, ...]:
    """Return the engine's flags in a fixed order: the named settings, the gang's, then ``[engine.args]``.

    Args:
        settings: What the user wants.
        table: The engine's own flags, where they are known.
        gang: What makes this rank's engine one of several.
    """
    free = [_free(name, value) for name, value in settings.engine.args.items()]
    replaced = {destination(f"--{name}", table) for name in settings.engine.args}
    named = [argument for argument in (*_named(settings), *gang) if destination(argument.flag, table) not in replaced]
    return (*named, *(argument for argument in free if argument is not None))


def words(flags: tuple[Argument, ...], extra: tuple[str, ...]) -> tuple[str, ...]:
    """Return the engine's arguments without the program: the settings' flags, then the words after ``--``."""
    return (*(word for argument in flags for word in argument.words), *extra)


def meaning(argv: tuple[str, ...], table: FlagTable | None) -> Mapping[str, tuple[str, ...]]:
    """Return what arguments set, by destination, as well as it can be told."""
    return table.destinations(argv) if table else destinations_without_table(argv)


def _named(settings: Settings) -> list[Argument]:
    model, engine, topology = settings.model, settings.engine, settings.topology
    candidates: list[tuple[str, FlagValue | None, str]] = [
        ("--model-path", model.path, "model.path"),
        ("--served-model-name", model.served_name, "model.served_name"),
        ("--revision", model.revision, "model.revision"),
        ("--context-length", model.context_length, "model.context_length"),
        ("--trust-remote-code", model.trust_remote_code, "model.trust_remote_code"),
        ("--host", engine.host, "engine.host"),
        ("--port", engine.port, "engine.port"),
        ("--device", engine.device, "engine.device"),
        ("--tp-size", topology.tensor_parallel, "topology.tensor_parallel"),
        ("--pp-size", topology.pipeline_parallel, "topology.pipeline_parallel"),
        ("--mem-fraction-static", engine.mem_fraction_static, "engine.mem_fraction_static"),
        ("--attention-backend", engine.attention_backend, "engine.attention_backend"),
        ("--reasoning-parser", engine.reasoning_parser, "engine.reasoning_parser"),
        ("--tool-call-parser", engine.tool_call_parser, "engine.tool_call_parser"),
        ("--watchdog-timeout", engine.watchdog_timeout_s, "engine.watchdog_timeout_s"),
        ("--max-running-requests", engine.max_running_requests, "engine.max_running_requests"),
        ("--enable-metrics", engine.enable_metrics, "engine.enable_metrics"),
        ("--enable-cache-report", engine.enable_cache_report, "engine.enable_cache_report"),
    ]
    return [
        argument
        for flag, value, setting in candidates
        if value is not None and (argument := _argument(flag, value, setting)) is not None
    ]


def _free(name: str, value: FlagValue) -> Argument | None:
    return _argument(f"--{name}", value, f"engine.args.{name}")


def _argument(flag: str, value: FlagValue, setting: str) -> Argument | None:
    """Return a flag with its value; None where the value says to leave it out."""
    if value is False or value == "":
        return None
    if value is True:
        return Argument(flag, (), setting)
    if isinstance(value, list):
        return Argument(flag, tuple(str(item) for item in value), setting)
    if isinstance(value, Mapping):
        return Argument(flag, (json.dumps(value),), setting)
    text = str(value)
    if text.startswith("-") and not isinstance(value, int | float):
        return Argument(f"{flag}={text}", (), setting)  # apart, argparse would take it for the next flag
    return Argument(flag, (text,), setting)


def command(python: Path, argv: tuple[str, ...], key_file: Path | None) -> tuple[str, ...]:
    """Return the whole command.

    Args:
        python: The engine's interpreter.
        argv: The engine's arguments.
        key_file: The file with the engine's keys, when it has any.
    """
    keys = ("--config", str(key_file)) if key_file else ()
    return (str(python), *MODULE, *keys, *argv)
