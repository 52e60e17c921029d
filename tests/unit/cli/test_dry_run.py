"""The dry run, from the command line to what is printed: it starts nothing and writes nothing."""

import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from entrypoint.cli import main


@dataclass(frozen=True)
class Said:
    """What a command ended with and printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def dry_run(
    machine: Any,
    no_processes: None,  # noqa: ARG001  # it forbids them
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Said]:
    """Make a dry run of a tiny model, and see that it leaves no trace."""

    def run(*argv: str, model: str | None = "/models/tiny") -> Said:
        before = machine.snapshot()
        words = ["--dry-run", *(["--model.path", model] if model else []), *argv]
        code = main(words)
        captured = capsys.readouterr()
        assert machine.snapshot() == before
        return Said(code, captured.out, captured.err)

    return run


DryRun = Callable[..., Said]


def words_of(said: Said) -> list[str]:
    """Return the words of a printed command, as a shell would read them."""
    return shlex.split(said.out.replace("\\\n", ""), comments=True)


def test_the_command_goes_to_stdout_and_findings_to_stderr(dry_run: DryRun, machine: Any):
    said = dry_run("--engine.port", "8000")
    assert said.code == 0
    words = words_of(said)
    assert words[0] == "env"
    assert words[words.index(str(machine.python)) :][1:5] == [
        "-m",
        "sglang.launch_server",
        "--model-path",
        "/models/tiny",
    ]
    assert words[words.index("--port") + 1] == "8000"
    assert "flags-unchecked" in said.err
    assert "flags-unchecked" not in said.out


@pytest.mark.usefixtures("flags_stored")
def test_with_the_engines_flags_in_store_they_are_checked(dry_run: DryRun):
    assert dry_run().err == ""
    said = dry_run("--engine.args.page-sise", "1")
    assert said.code == 78
    assert "flag-unknown" in said.err
    assert "--page-sise 1" in said.out, "the command is shown all the same"


@pytest.mark.parametrize("argv", [["--engine.tool_call_parser", ""], ["--engine.tool_call_parser="]])
def test_a_server_without_a_tool_parser_is_refused_with_78(dry_run: DryRun, argv: Sequence[str]):
    said = dry_run(*argv)
    assert said.code == 78
    assert "parsers-both" in said.err


@pytest.mark.parametrize("rules", ["parsers-both", "parsers-both,ports-clash", '["parsers-both"]', "x parsers-both"])
def test_who_knows_better_silences_a_rule_on_the_command_line(dry_run: DryRun, rules: str):
    said = dry_run("--engine.tool_call_parser", "", "--rules.ignore", rules)
    assert said.code == 0
    assert "parsers-both" not in said.err


def test_a_rule_can_be_silenced_from_the_environment(dry_run: DryRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPERVISE_RULES__IGNORE", "parsers-both")
    assert dry_run("--engine.tool_call_parser", "").code == 0


def test_silencing_another_rule_changes_nothing(dry_run: DryRun):
    assert dry_run("--engine.tool_call_parser", "", "--rules.ignore", "ports-clash").code == 78


def test_json_is_json_and_nothing_else(dry_run: DryRun):
    said = dry_run("--format", "json")
    assert said.code == 0
    assert said.err == ""
    found = json.loads(said.out)
    assert {"argv", "environment", "caches", "findings", "provenance", "settings"} <= found.keys()
    assert found["provenance"]["model.path"] == {"layer": "command line", "source": "--model.path"}


def test_json_ends_with_the_same_code(dry_run: DryRun):
    said = dry_run("--format", "json", model=None)
    assert said.code == 78
    assert json.loads(said.out)["findings"][0]["rule"] == "model-unset"


def test_the_file_that_settings_come_from_is_named(dry_run: DryRun, machine: Any):
    (machine.cwd / "supervise.toml").write_text("engine.port = 8000")
    said = dry_run()
    assert f"supervise: settings from {machine.cwd}/supervise.toml" in said.err
    assert words_of(said)[words_of(said).index("--port") + 1] == "8000"


def test_a_profile_and_words_for_the_engine_arrive(dry_run: DryRun):
    words = words_of(dry_run("--profile", "tiny", "--", "--page-size", "16"))
    assert words[-2:] == ["--page-size", "16"]
    assert words[words.index("--served-model-name") + 1] == "tiny"


def test_a_broken_setting_is_one_clear_sentence(dry_run: DryRun):
    said = dry_run("--engine.prot", "1")
    assert (said.code, said.out) == (78, "")
    assert said.err.startswith("supervise: --engine.prot: ")
    assert "Did you mean --engine.port?" in said.err


@pytest.mark.parametrize("as_json", [[], ["--format", "json"]])
@pytest.mark.parametrize(
    "argv",
    [
        ["--", "--api-key", "s3cret-key"],
        ["--", "--api-k", "s3cret-key"],
        ["--", "--admin-api-key=s3cret-key"],
        ["--engine.args.api-key", "s3cret-key"],
        ["--engine.args.ssl-keyfile-password", "s3cret-key"],
        ["--engine.api_key", "s3cret-key"],
        ["--engine.env.MY_SERVICE_TOKEN", "s3cret-key"],
    ],
)
def test_no_secret_is_printed_wherever_it_was_given(dry_run: DryRun, argv: Sequence[str], as_json: Sequence[str]):
    said = dry_run(*as_json, *argv)
    assert "s3cret" not in said.out + said.err


@pytest.mark.parametrize("as_json", [[], ["--format", "json"]])
def test_what_a_variable_held_before_is_not_printed_either(
    dry_run: DryRun, as_json: Sequence[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MY_SERVICE_TOKEN", "s3cret-old")
    said = dry_run(*as_json, "--engine.env.MY_SERVICE_TOKEN", "s3cret-new")
    assert "s3cret" not in said.out + said.err


def test_secrets_of_the_environment_reach_neither_stream(dry_run: DryRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_s3cret-token")
    monkeypatch.setenv("SUPERVISE_ENGINE__API_KEY", "s3cret-key")
    said = dry_run("--format", "json", "--engine.args.x", "s3cret-key")
    assert "s3cret" not in said.out + said.err


def test_a_port_that_is_none_is_refused_and_no_crash(dry_run: DryRun):
    for as_json in ([], ["--format", "json"]):
        assert dry_run(*as_json, "--", "--port", "http").code == 78


def test_brackets_in_a_message_arrive_as_they_are(dry_run: DryRun):
    said = dry_run("--engine.api_key", "s3cret-key", "--engine.args.config", "/my.yaml")
    assert "Move the contents of your file to [engine.args]." in said.err


def test_a_token_of_a_run_in_the_environment_is_no_setting(dry_run: DryRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPERVISE_TOKEN", "s3cret-token")
    said = dry_run()
    assert said.code == 0
    assert "s3cret" not in said.out


def test_a_working_directory_that_is_gone_is_said_so(machine: Any, capsys: pytest.CaptureFixture[str]):
    gone = machine.home / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert main(["--dry-run"]) == 73
    assert "working directory" in capsys.readouterr().err


@pytest.fixture
def signals_restored() -> Iterator[None]:
    """A run listens to signals from its first moment on; the tests' own process must not."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("no_processes", "signals_restored")
def test_a_refused_run_starts_nothing_either(machine: Any, capsys: pytest.CaptureFixture[str]):
    before = machine.snapshot()
    assert main(["run", "--engine.tool_call_parser", "", "--model.path", "/m"]) == 78
    said = capsys.readouterr().err
    assert 'nothing was started: 1 error (exit code 78). Who knows better sets rules.ignore = ["parsers-both"].' in said
    assert machine.snapshot() == before
