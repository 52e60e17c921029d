"""What a command line says."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from entrypoint import __version__
from entrypoint.cli import main
from entrypoint.cli.parse import COMMANDS, Call, parse


def understood(*argv: str) -> Call:
    call = parse(argv)
    assert call is not None
    return call


def usage_error(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return what is said about a command line that must not be understood."""
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(argv))
    assert ended.value.code == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


# Commands


def test_no_word_at_all_means_run():
    call = understood()
    assert (call.command, call.overrides, call.extra) == ("run", (), ())


@pytest.mark.parametrize("argv", [["--profile", "tiny"], ["run", "--profile", "tiny"], ["run", "--profile=tiny"]])
def test_run_is_the_default_command(argv: Sequence[str]):
    call = understood(*argv)
    assert (call.command, call.options.profile) == ("run", "tiny")


ABOUT_SOMETHING = {"verify", "wait", "status", "drain", "diagnose", "edf", "sbatch"}
"""Commands that want to be told what they are about."""


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - ABOUT_SOMETHING))
def test_every_command_is_known(command: str):
    assert understood(command).command == command


@pytest.mark.parametrize(
    "argv",
    [
        ["supervise", "check"],
        ["supervise", "supervise", "check"],
        ["/opt/supervise/bin/supervise", "check"],
    ],
)
def test_our_own_name_in_front_is_dropped(argv: Sequence[str]):
    assert understood(*argv).command == "check"


def test_only_our_own_name_is_dropped():
    assert understood("supervised", "check") == Call("foreign", foreign=("supervised", "check"))


def test_settings_may_stand_in_front_of_the_command():
    call = understood("--engine.port", "1", "check")
    assert (call.command, call.overrides) == ("check", (("engine.port", "1"),))


def test_options_of_the_command_are_read():
    call = understood("run", "--config", "a.toml", "--config", "b.toml", "--format", "json", "--dry-run")
    assert call.options.config == [Path("a.toml"), Path("b.toml")]
    assert (call.options.format, call.options.dry_run) == ("json", True)


def test_where_and_url_are_words_of_their_own():
    assert understood("wait", "logs/1", "--timeout", "5", "--export").options.where == "logs/1"
    assert understood("verify", "http://h:1", "--no-tools").options.url == "http://h:1"


# Settings


@pytest.mark.parametrize(
    ("argv", "override"),
    [
        (["--engine.port", "8000"], ("engine.port", "8000")),
        (["--engine.port=8000"], ("engine.port", "8000")),
        (["--engine.args.language-only"], ("engine.args.language-only", "true")),
        (["--engine.args.x", "-1"], ("engine.args.x", "-1")),
        (["--engine.args.x", "-x"], ("engine.args.x", "-x")),
        (["--engine.args.x=--y"], ("engine.args.x", "--y")),
        (["--engine.tool_call_parser", ""], ("engine.tool_call_parser", "")),
        (["--engine.tool_call_parser="], ("engine.tool_call_parser", "")),
        (["--engine.env.A_B", "x=y"], ("engine.env.A_B", "x=y")),
        (["--engine.args.x", "two\nlines"], ("engine.args.x", "two\nlines")),
        (["--engine.args.x=two\nlines"], ("engine.args.x", "two\nlines")),
    ],
)
def test_a_dotted_key_is_a_setting(argv: Sequence[str], override: tuple[str, str]):
    assert understood(*argv).overrides == (override,)


def test_a_dotted_key_in_front_of_an_option_means_true():
    call = understood("--engine.args.x", "--dry-run")
    assert call.overrides == (("engine.args.x", "true"),)
    assert call.options.dry_run


def test_settings_keep_their_order_and_may_be_repeated():
    assert understood("--a.b", "1", "--c.d", "--a.b=2").overrides == (("a.b", "1"), ("c.d", "true"), ("a.b", "2"))


# The engine's own flags


def test_everything_after_the_separator_goes_to_the_engine_as_it_is():
    call = understood("--engine.port", "1", "--", "--engine.port", "2", "--", "--help", "run")
    assert call.overrides == (("engine.port", "1"),)
    assert call.extra == ("--engine.port", "2", "--", "--help", "run")


def test_a_setting_in_front_of_the_separator_means_true():
    assert understood("--engine.args.x", "--", "y").overrides == (("engine.args.x", "true"),)


def test_check_takes_them_too():
    assert understood("check", "--", "--tp", "4").extra == ("--tp", "4")


# Foreign commands


@pytest.mark.parametrize(
    "argv", [["bash"], ["bash", "-c", "echo --help"], ["ls", "--", "x"], ["/usr/bin/env", "--engine.port", "1"]]
)
def test_any_other_first_word_is_a_foreign_command_and_left_alone(argv: Sequence[str]):
    assert understood(*argv) == Call("foreign", foreign=tuple(argv))


# What cannot be understood


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--prof", "tiny"], "--prof"),
        (["--dry"], "--dry"),
        (["run", "extra"], "extra"),
        (["--format", "xml"], "xml"),
        (["wait"], "WHERE"),
        (["verify"], "URL"),
        (["verify", "u", "--timeout", "long"], "long"),
        ([""], "'' is one word too many"),
        (["-x"], "-x"),
    ],
)
def test_a_usage_error_ends_with_64_and_names_the_help(
    capsys: pytest.CaptureFixture[str], argv: Sequence[str], words: str
):
    said = usage_error(capsys, *argv)
    assert words in said
    assert "--help" in said


@pytest.mark.parametrize("command", ["wait", "status", "drain"])
def test_a_command_without_settings_refuses_what_it_would_ignore(capsys: pytest.CaptureFixture[str], command: str):
    assert "--engine.port" in usage_error(capsys, command, "where", "--engine.port", "1")
    assert "after --" in usage_error(capsys, command, "where", "--", "--tp", "1")
    assert understood(command, "where").options.where == "where"


@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["--version"], ["wait", "--help"]])
def test_help_and_version_end_with_0(capsys: pytest.CaptureFixture[str], argv: Sequence[str]):
    with pytest.raises(SystemExit) as exit_:
        parse(argv)
    assert exit_.value.code == 0
    assert capsys.readouterr().out


def test_help_names_every_command_and_every_exit_code(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(["--help"])
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"  {command} " in text
    for code in ("0", "64", "69", "70", "71", "73", "75", "76", "77", "78"):
        assert f" {code} " in text


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["wait", "--help"]])
def test_help_and_version_load_nothing_heavy(argv: Sequence[str]):
    script = f"""
import sys
from entrypoint.cli import main
try:
    main({list(argv)!r})
except SystemExit:
    pass
heavy = {{"pydantic", "httpx", "rich", "asyncio", "uvicorn", "psutil", "structlog"}} & sys.modules.keys()
sys.exit(str(heavy) if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(["--version"])
    assert capsys.readouterr().out == f"supervise {__version__}\n"
