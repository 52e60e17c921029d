"""Secrets: in the two files that need them, and nowhere else."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from harness import Supervised, wait_for
from stage import Stage

pytestmark = pytest.mark.process
KEY, ADMIN_KEY, TOKEN = "engine-key-4711", "admin-key-0815", "hf_abcdefghijklmnopqrstuvwxyz"
SECRETS = (KEY, ADMIN_KEY, TOKEN)
MAY_HOLD_KEYS = {"endpoint.json", "engine-keys.yaml"}


@pytest.fixture(scope="module")
def run(stage: Stage) -> Iterator[Supervised]:
    """A run with three secrets that its engine repeats aloud."""
    secrets = {"SUPERVISE_ENGINE__API_KEY": KEY, "SUPERVISE_ENGINE__ADMIN_API_KEY": ADMIN_KEY, "HF_TOKEN": TOKEN}
    said = f"the key is {KEY}, \rthe other {ADMIN_KEY}\nand the token {TOKEN}.\n"
    with stage.make(environment=secrets, says=said) as made:
        made.wait_state("ready")
        wait_for(lambda: "and the token" in (made.run_directory / "server-0.log").read_text(), 10, "the log")
        yield made


def test_no_command_line_shows_a_secret(run: Supervised):
    shown = [psutil.Process(pid).cmdline() for pid in run.tree()]
    assert len(shown) >= 5
    assert not [words for words in shown for secret in SECRETS if secret in " ".join(words)]


def test_status_shows_none(run: Supervised):
    assert not [secret for secret in SECRETS if secret in run.get("/status").text]


def test_the_engines_own_lines_are_masked(run: Supervised):
    log = (run.run_directory / "server-0.log").read_text()
    assert "the key is ***" in log
    assert "the other ***" in log
    assert "and the token ***" in log or "and the token hf_***" in log


def test_the_run_directory_is_its_owners_alone(run: Supervised):
    assert run.run_directory.stat().st_mode & 0o777 == 0o700
    modes = {file.name: file.stat().st_mode & 0o777 for file in run.run_directory.iterdir()}
    assert {"endpoint.json", "plan.json", "server-0.log", "events-0.jsonl"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_files_and_output_hold_none_when_it_is_over(run: Supervised):
    run.signal(signal.SIGTERM)
    assert run.wait() == 0
    files = [*run.run_directory.iterdir(), run.directory / "stdout", run.directory / "stderr"]
    assert {"report-0.md", "report-0.json", "plan.json"} <= {file.name for file in files}
    assert holders(files) <= MAY_HOLD_KEYS


def holders(files: list[Path]) -> set[str]:
    return {file.name for file in files if any(secret in file.read_text(errors="replace") for secret in SECRETS)}
