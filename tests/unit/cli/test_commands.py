"""How findings are shown, how failures are told and how output ends; and what ``profiles`` and ``check`` say."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrypoint.cli import check as checking
from entrypoint.cli import dispatch as dispatching
from entrypoint.cli import main
from entrypoint.cli.dispatch import PLACES, dispatch
from entrypoint.cli.findings import refusal, table
from entrypoint.cli.parse import COMMANDS, Call
from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings import profiles

FINDING = Finding("some-rule", Severity.ERROR, "It is [engine.args] and [/x].", "Set [engine.env].")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# Findings


def test_findings_are_a_table_with_every_word_as_it_is():
    text = table([FINDING], io.StringIO())
    for words in ("error", "some-rule", "It is [engine.args] and [/x].", "Set [engine.env]."):
        assert words in text
    assert "\x1b" not in text


def test_findings_are_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in table([FINDING], Terminal())


def test_no_findings_are_no_table():
    assert table([], io.StringIO()) == ""


def test_a_refusal_names_the_rules_once_and_the_code():
    other = Finding("a-rule", Severity.ERROR, "m", "r", code=ExitCode.NODE_UNFIT)
    said = refusal([FINDING, other, FINDING])
    assert "3 errors (exit code 78)" in said
    assert 'rules.ignore = ["a-rule", "some-rule"]' in said
    assert "1 error (exit code 69)" in refusal([other])


# Dispatch


def test_every_command_has_a_place():
    assert PLACES.keys() == COMMANDS.keys() | {"foreign"}


def test_a_failure_is_its_sentence_its_remedy_and_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail(_: Call) -> int:
        raise SuperviseError("It is broken.", remedy="Mend it.", code=ExitCode.DIRECTORY_UNUSABLE)

    monkeypatch.setattr(dispatching, "import_module", lambda _: SimpleNamespace(perform=fail))
    assert dispatch(Call("check")) == 73
    assert capsys.readouterr().err == "supervise: It is broken.\nMend it.\n"


def test_a_broken_pipe_of_a_run_is_a_fault_and_no_good_end(monkeypatch: pytest.MonkeyPatch):
    def fail(_: Call) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(dispatching, "import_module", lambda _: SimpleNamespace(perform=fail))
    with pytest.raises(BrokenPipeError):
        dispatch(Call("run", SimpleNamespace(dry_run=False)))


@pytest.mark.parametrize("environ", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_reader_who_has_seen_enough_is_left_in_peace(environ: Mapping[str, str]):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | environ
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "entrypoint", "profiles"],
        env=environment,
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


# Profiles


def test_profiles_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["profiles"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == list(profiles.names())
    assert main(["profiles", "list", "--format", "json"]) == 0
    assert [profile["name"] for profile in json.loads(capsys.readouterr().out)] == list(profiles.names())


@pytest.mark.parametrize("name", profiles.names())
def test_a_profile_is_shown_with_a_reason_below_every_value(name: str, capsys: pytest.CaptureFixture[str]):
    assert main(["profiles", "show", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    values = [place for place, line in enumerate(lines) if " = " in line and not line.startswith(" ")]
    assert values
    for place in values:
        assert lines[place + 1].strip(), lines[place]


def test_a_profile_is_shown_as_json(capsys: pytest.CaptureFixture[str]):
    assert main(["profiles", "show", "tiny", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"]["engine"]["port"] == 31000


@pytest.mark.parametrize(("argv", "code"), [(["show"], 64), (["show", "tyni"], 78)])
def test_a_profile_that_is_not_named_or_not_there(argv: list[str], code: int, capsys: pytest.CaptureFixture[str]):
    assert main(["profiles", *argv]) == code
    assert "tiny" in capsys.readouterr().err


# Check


@pytest.fixture
def check(flags_stored: None, fake_model: Path, free_ports: Any, capsys: Any) -> Any:  # noqa: ARG001  # the engine is known
    """Check a run that nothing stands against, but what the arguments say; return its code and findings."""

    def perform(*argv: str) -> tuple[int, list[dict[str, Any]]]:
        words = ["--model.path", str(fake_model), "--engine.port", str(next(free_ports))]
        code = main(["check", *words, "--health.port", str(next(free_ports)), "--format", "json", *argv])
        return code, json.loads(capsys.readouterr().out)

    return perform


def test_a_run_that_nothing_stands_against_has_no_findings(check: Any):
    assert check() == (0, [])


@pytest.mark.parametrize("setting", ["engine.port", "health.port"])
def test_a_taken_port_is_found(check: Any, serve: Any, setting: str):
    code, (finding,) = check(f"--{setting}", str(serve().port))
    assert code == 69
    assert (finding["rule"], finding["setting"]) == ("port-taken", setting)


@pytest.mark.parametrize("setting", ["logs.dir", "caches.hf_home"])
def test_a_place_that_cannot_be_written_is_found(check: Any, machine: Any, setting: str):
    (machine.cwd / "file").write_text("")
    code, findings = check(f"--{setting}", str(machine.cwd / "file"))
    assert code == 73
    assert {(finding["rule"], finding["setting"]) for finding in findings} == {("directory-unusable", setting)}


@pytest.mark.usefixtures("flags_stored")
def test_a_file_system_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    released = threading.Event()
    monkeypatch.setattr(checking, "writable_finding", lambda *_: released.wait(60))
    try:
        assert main(["check", "--deadlines.check_s", "0.3"]) == 75
    finally:
        released.set()
    said = capsys.readouterr().err
    assert "was not done within 0.3 s" in said
    assert "raise deadlines.check_s" in said


def test_a_wrong_file_of_signatures_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rows = tmp_path / "own.toml"
    rows.write_text('[[signature]]\nid = "own.thing"\n')
    assert main(["check", "--watch.signatures", str(rows)]) == 78
    assert "own.toml" in capsys.readouterr().err


def test_a_finding_of_a_place_can_be_silenced(check: Any, serve: Any):
    assert check("--health.port", str(serve().port), "--rules.ignore", "port-taken") == (0, [])


@pytest.mark.usefixtures("machine")
def test_on_a_login_node_the_engine_that_the_image_will_bring_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("SUPERVISE_ENGINE__DEVICE")
    monkeypatch.delenv("SUPERVISE_ENGINE__PYTHON")
    assert main(["check", "--profile", "kimi27", "--format", "json"]) == 0
    findings = {finding["rule"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["engine-python"]["severity"] == "note"
    assert "fraction-below-floor" not in findings  # the profile's four nodes are meant, not this one


def test_an_engine_that_is_named_and_missing_is_an_error_everywhere(machine: Any, capsys: pytest.CaptureFixture[str]):
    assert main(["check", "--engine.python", str(machine.cwd / "python"), "--format", "json"]) == 78
    findings = {finding["rule"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["engine-python"]["severity"] == "error"


def test_a_missing_model_is_found(check: Any, machine: Any):
    code, findings = check("--model.path", str(machine.cwd / "missing"))
    assert code == 78
    assert findings[0]["rule"] == "model-missing"


@pytest.mark.usefixtures("machine", "flags_stored")
def test_check_for_people_is_a_table(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "--model.path", "/nowhere"]) == 78
    assert "model-missing" in capsys.readouterr().out
