"""What a command line says, before anything is done about it.

``supervise [COMMAND] [OPTIONS] [--dotted.key VALUE]… [-- ENGINE FLAGS]``. A first word that is neither a command nor
an option is a foreign command: the image's entry point is given a shell or a probe to run.
"""

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from entrypoint import __version__
from entrypoint.cli.streams import complain
from entrypoint.readable import shortened

PROGRAM = "supervise"
USAGE_ERROR = 64
"""EX_USAGE of sysexits.h; argparse's own 2 would read as the engine's."""
_DOTTED = re.compile(r"--(?P<name>[a-z_]+\.[A-Za-z0-9_.-]+)(?:=(?P<value>.*))?", re.DOTALL)

COMMANDS = {
    "run": "start a proven server and look after it (the default)",
    "check": "look at model, ports, directories and flags, and start nothing",
    "warm": "fill caches and build kernels, and start nothing",
    "plan": "show on how many nodes a model fits, with which memory fraction and which pool",
    "verify": "prove tool calls and reasoning of any running server",
    "wait": "block until a server is ready, and print where it is",
    "status": "print what a run is doing",
    "drain": "stop taking requests, finish those in flight, stop",
    "diagnose": "say why a server ended, from its logs or its run directory",
    "profiles": "list and show the packaged profiles",
    "edf": "write an EDF for a profile, or check EDFs",
    "sbatch": "print a batch script for a profile",
}

WITH_SETTINGS = frozenset({"run", "check", "plan", "warm"})

_SETTINGS_HELP = """\
settings:
  --SECTION.KEY VALUE   any setting, for example --engine.port 31000; "" omits an engine flag
  -- FLAGS              everything after a bare -- goes to the engine as it is
"""
_COMMANDS_HELP = "\n".join(f"  {name:<10} {sentence}" for name, sentence in COMMANDS.items())

USAGES = {
    "run": f"{PROGRAM} [COMMAND] [OPTIONS] [--SECTION.KEY VALUE]... [-- FLAGS]",
    "check": f"{PROGRAM} check [OPTIONS] [--SECTION.KEY VALUE]... [-- FLAGS]",
    "warm": f"{PROGRAM} warm [OPTIONS] [--prune] [--SECTION.KEY VALUE]... [-- FLAGS]",
    "plan": f"{PROGRAM} plan [OPTIONS] [--SECTION.KEY VALUE]... [-- FLAGS]",
}
"""What the parser cannot say by itself, since it does not see the settings."""

EPILOGS = {
    "run": f"""\
{_SETTINGS_HELP}
commands (each has its own --help):
{_COMMANDS_HELP}

any other first word is run as a command with the engine's cache and network environment set.

exit codes:
  0 stopped as asked   64 usage   69 node unfit   70 engine failed   71 out of memory   73 directory unusable
  75 hang or lost peer, a requeue may help   76 self-check failed   77 not permitted   78 configuration
""",
    "check": f"""\
{_SETTINGS_HELP}
exit code: 0, or the one with which a run would be refused, such as 69, 73 or 78
""",
    "plan": _SETTINGS_HELP,
    "warm": f"""\
{_SETTINGS_HELP}
exit code: 0 everything is ready, 69 a step could not be built, 73 a directory cannot be used, 78 wrong settings
""",
    "verify": "exit code: 0 proven, 76 something does not work\n",
    "diagnose": "exit code: 0 whatever the verdict, 64 nothing to read, 78 a wrong file of signatures\n",
    "edf": "exit code: 0, or 78 when an EDF is wrong\n",
    "wait": "exit code: 0 ready, 75 not ready in time, else the one that the run has ended with\n",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A command line, taken apart.

    Attributes:
        command: Name of the command; "foreign" for a command of somebody else.
        options: The command's own options, by name.
        overrides: Settings of the command line, as dotted name and text.
        extra: The words after ``--``.
        foreign: The foreign command.
        words: All words behind the command's name, as they were given.
    """

    command: str
    options: argparse.Namespace = field(default_factory=argparse.Namespace)
    overrides: tuple[tuple[str, str], ...] = ()
    extra: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class _Parser(argparse.ArgumentParser):
    """Ends with 64 on a usage error, and says what to do about it."""

    def error(self, message: str) -> "None":  # type: ignore[override]  # raises like the original, with another code
        self.exit(USAGE_ERROR, shortened(f"{self.prog}: {message}\nTry: {self.prog} --help\n"))

    def options(self) -> list[str]:
        """Return every option that it knows."""
        return [option for action in self._actions for option in action.option_strings]


def parse(argv: Sequence[str]) -> Call | None:
    """Take a command line apart.

    Returns:
        The call, or None when it cannot be understood and stderr says why.

    Raises:
        SystemExit: ``--help``, ``--version``, or a usage error.
    """
    words = _without_own_name(argv)
    if words and words[0] and not words[0].startswith("-") and words[0] not in COMMANDS:
        return Call("foreign", foreign=tuple(words))
    given = tuple(words)
    words, extra = _split_extra(words)
    words, overrides = _split_overrides(words)
    command = words.pop(0) if words and words[0] in COMMANDS else "run"
    parser = _parser(command)
    options, strange = parser.parse_known_args(words)
    if strange:
        parser.error(_strange(command, strange[0], parser.options()))
    misplaced = _misplaced(command, overrides, extra)
    if misplaced:
        complain(f"{PROGRAM} {command}: {misplaced}\nTry: {PROGRAM} {command} --help\n")
        return None
    behind = given[1:] if given[:1] == (command,) else given
    return Call(command, options, tuple(overrides), tuple(extra), words=behind)


def _strange(command: str, word: str, options: Sequence[str]) -> str:
    """Say what a word is that belongs nowhere, and what was probably meant."""
    if not word.startswith("-"):
        return f"{word or repr(word)} is one word too many"
    name = word.partition("=")[0]
    settings = _settings_like(name) if command in WITH_SETTINGS else []
    if settings:
        return f"there is no option {name}; a setting is named with its section: {' or '.join(settings)}"
    similar = get_close_matches(name, options, n=1, cutoff=0.7)
    if similar:
        return f"there is no option {name}; did you mean {similar[0]}?"
    hint = "; a setting is written --SECTION.KEY, and flags of the engine go after a bare --"
    return f"there is no option {name}{hint if command in WITH_SETTINGS else ''}"


def _settings_like(option: str) -> list[str]:
    """Return the settings that an option without a section may mean, as options."""
    from entrypoint.settings import catalogue  # only here: it takes time

    found = catalogue.nearest((option.lstrip("-").replace("-", "_"),))
    return [f"--{'.'.join(path)}" for path in found if len(path) > 1]


def _misplaced(command: str, overrides: list[tuple[str, str]], extra: list[str]) -> str | None:
    """Return what a command would silently do nothing with."""
    if command in WITH_SETTINGS:
        return None
    if overrides:
        return f"settings such as --{overrides[0][0]} belong to run and check"
    return "engine flags after -- belong to run and check" if extra else None


def _without_own_name(argv: Sequence[str]) -> list[str]:
    """Drop our own name where an entry point was given it once more: ``podman run IMAGE supervise …``."""
    words = list(argv)
    while words and Path(words[0]).name == PROGRAM:
        words.pop(0)
    return words


def _split_extra(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _split_overrides(words: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Separate ``--dotted.key value`` from the rest; a dotted key without a value means true."""
    rest: list[str] = []
    overrides: list[tuple[str, str]] = []
    pending = list(words)
    while pending:
        word = pending.pop(0)
        match = _DOTTED.fullmatch(word)
        if match is None:
            rest.append(word)
        elif match["value"] is not None:
            overrides.append((match["name"], match["value"]))
        elif pending and not pending[0].startswith("--"):
            overrides.append((match["name"], pending.pop(0)))
        else:
            overrides.append((match["name"], "true"))
    return rest, overrides


def _parser(command: str) -> _Parser:
    parser = _Parser(
        prog=PROGRAM if command == "run" else f"{PROGRAM} {command}",
        description=COMMANDS[command].capitalize() + ".",
        usage=USAGES.get(command),
        epilog=EPILOGS.get(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _ADD[command](parser)
    return parser


def _count(text: str) -> int:
    """Return a number of things of which there is at least one."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="for people or for programs")


def _add_warm(parser: argparse.ArgumentParser) -> None:
    _add_settings(parser)
    parser.add_argument(
        "--prune",
        nargs="?",
        const=30.0,
        type=_days,
        metavar="DAYS",
        help="warm nothing; remove caches of other software that nobody used for so many days, by default 30",
    )


def _days(text: str) -> float:
    """Return a number of days.

    Raises:
        ArgumentTypeError: It is none.
    """
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days < math.inf:
        raise argparse.ArgumentTypeError(f"{shortened(text)!r} is no number of days")
    return days


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", metavar="NAME", help="packaged profile that everything else overrides")
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="TOML settings, repeatable, the last one wins; by default SUPERVISE_CONFIG, ./supervise.toml, "
        "/etc/supervise/supervise.toml",
    )
    _add_format(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_settings(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the resolved command and start nothing")


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="base URL of a server, or of a run's health endpoints")
    parser.add_argument("--model", metavar="NAME", help="model name; by default the first that the server lists")
    parser.add_argument(
        "--api-key-file", metavar="FILE", type=Path, help="file with the key; by default OPENAI_API_KEY is used"
    )
    parser.add_argument(
        "--max-tokens",
        metavar="N",
        type=int,
        default=2048,
        help="answer budget of each request, by default %(default)s",
    )
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=900.0, help="seconds for the whole check, by default %(default)g"
    )
    parser.add_argument("--no-tools", action="store_true", help="the model has no tool calls")
    parser.add_argument("--no-reasoning", action="store_true", help="the model does not think")
    _add_format(parser)


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("where", metavar="WHERE", help="URL of the health endpoints, or a run directory")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="file with the run's token; by default SUPERVISE_TOKEN, else the one in the run directory",
    )
    _add_format(parser)


def _add_wait(parser: argparse.ArgumentParser) -> None:
    _add_where(parser)
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=None, help="give up after so many seconds; by default never"
    )
    parser.add_argument("--export", action="store_true", help="print OPENAI_BASE_URL and OPENAI_API_KEY for eval")


def _add_diagnose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "where",
        metavar="FILE|RUN_DIR",
        nargs="+",
        help="logs of one or several ranks, also compressed, - for the standard input; or one run directory",
    )
    parser.add_argument(
        "--output", metavar="DIR", type=Path, help="also write the report there, as Markdown, JSON and HTML"
    )
    parser.add_argument(
        "--signatures",
        metavar="FILE",
        type=Path,
        help="rows of your own for what a log can mean, over the packaged ones",
    )
    _add_format(parser)


def _add_profiles(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", nargs="?", choices=("list", "show"), default="list", help="list all (the default) or show one"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="profile to show")
    _add_format(parser)


def _add_site(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--site", metavar="NAME|FILE", help="cluster, packaged or a TOML file; by default the one that this is"
    )


def _add_edf(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("render", "check"), help="write one to stdout, or check some")
    parser.add_argument("files", nargs="*", metavar="FILE", help="EDF to check, by its path or as srun looks it up")
    parser.add_argument("--profile", metavar="NAME", help="profile that is served in it")
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=_count,
        help="nodes of one server; by default those of the profile, and for a check what the hooks tell",
    )
    parser.add_argument("--ignore", metavar="RULE", action="append", default=[], help="rule to silence, repeatable")
    _add_site(parser)
    _add_format(parser)


def _add_sbatch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", metavar="NAME", required=True, help="profile to serve")
    parser.add_argument(
        "--nodes", metavar="N", type=_count, help="nodes; by default those of one server, a multiple for several"
    )
    parser.add_argument(
        "--time", metavar="LIMIT", help="time limit as sbatch takes it; by default the site's usual one"
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="write it there instead of to stdout")
    _add_site(parser)


_ADD = {
    "run": _add_run,
    "check": _add_settings,
    "warm": _add_warm,
    "plan": _add_settings,
    "verify": _add_verify,
    "wait": _add_wait,
    "status": _add_where,
    "drain": _add_where,
    "diagnose": _add_diagnose,
    "profiles": _add_profiles,
    "edf": _add_edf,
    "sbatch": _add_sbatch,
}
