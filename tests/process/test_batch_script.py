"""The batch script, run by bash with stand-ins for Slurm's commands: how it ends, whatever server and client do."""

import os
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from entrypoint.batch.job import make_job
from entrypoint.batch.script import script
from entrypoint.settings import profiles
from entrypoint.site.reading import read_site

pytestmark = pytest.mark.process
PATIENCE_S = 60

SRUN = """\
#!/bin/bash
# The server's step lasts until it is told to drain, or ends by itself with $SERVER_CODE; other steps are the client's.
while [[ "$1" == -* ]]; do echo "$1" >> "$HERE/options"; shift; done
if [[ "$*" == "supervise --profile"* ]]; then
  trap 'echo drained >> "$HERE/said"; exit 0' USR1
  touch "$HERE/step"
  [[ -z "${SERVER_CODE:-}" ]] || exit "$SERVER_CODE"
  while :; do sleep 0.1; done
fi
exec "$@"
"""
SUPERVISE = """\
#!/bin/bash
# supervise wait
[[ -z "${NEVER_READY:-}" ]] || exec sleep 600
[[ -z "${WAIT_CODE:-}" ]] || exit "$WAIT_CODE"
echo "export OPENAI_BASE_URL=http://n0:30000/v1"
echo "export OPENAI_API_KEY=sk-of-$(basename "$3")"
"""
SCONTROL = """\
#!/bin/bash
if [[ "$1" == show ]]; then [[ -e "$HERE/step" ]]; else echo "$*" >> "$HERE/said"; fi
"""
ENVIRONMENT = {
    "SLURM_JOB_ID": "812",
    "SLURM_CPUS_ON_NODE": "192",
    "SLURM_JOB_ACCOUNT": "a0",
    "SUPERVISE_IMAGE": "me/serving",
    "SCRATCH": "/scratch",
}


@dataclass(frozen=True)
class Ended:
    """How a script ended.

    Attributes:
        code: Its exit code.
        output: What it printed.
        errors: What it complained about.
        said: What the stand-ins were told, a line each.
        options: What srun was told.
    """

    code: int
    output: str
    errors: str
    said: list[str]
    options: list[str]


@dataclass(frozen=True)
class Host:
    """A machine with stand-ins for Slurm."""

    directory: Path

    def run(self, *client: str, profile: str = "kimi27", without: str = "", **variables: str) -> Ended:
        path = f"{self.directory}:{os.environ['PATH']}"
        environ: Mapping[str, str] = {**ENVIRONMENT, "PATH": path, "HERE": str(self.directory), **variables}
        text = script(
            make_job(profiles.read(profile), read_site("beverin"), site_word="beverin", nodes=None, time=None)
        )
        done = subprocess.run(
            ["bash", "-s", *client],
            input=text,
            env={name: value for name, value in environ.items() if name != without},
            text=True,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr, self._lines("said"), self._lines("options"))

    def _lines(self, name: str) -> list[str]:
        path = self.directory / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def host(tmp_path: Path) -> Host:
    for name, text in (("srun", SRUN), ("supervise", SUPERVISE), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    return Host(tmp_path)


def test_a_client_gets_the_endpoint_and_its_end_drains_the_server(host: Host):
    ended = host.run("bash", "-c", 'echo "client of $OPENAI_BASE_URL with $OPENAI_API_KEY and $1"', "it", "two words")
    assert ended.code == 0
    assert "client of http://n0:30000/v1 with sk-of-812.0.0 and two words" in ended.output
    assert "ready: http://n0:30000/v1" in ended.errors
    assert ended.said == ["drained"]


def test_the_endpoint_is_told_before_it_is_there(host: Host):
    assert "/scratch/supervise/812.0.1/endpoint.json" in host.run("true", SLURM_RESTART_COUNT="1").output


def test_a_failing_client_gives_the_job_its_exit_code(host: Host):
    ended = host.run("bash", "-c", "exit 7")
    assert (ended.code, ended.said) == (7, ["drained"])


def test_a_client_outlives_slurms_warning(host: Host):
    assert host.run("bash", "-c", "kill -USR1 $$; exit 5").code == 5


def test_a_server_that_was_drained_by_others_leaves_the_client_the_rest_of_the_job(host: Host):
    ended = host.run("bash", "-c", "sleep 2; echo finished; exit 3", SERVER_CODE="0")
    assert (ended.code, ended.said) == (3, [])
    assert "finished" in ended.output


def test_a_server_that_fails_takes_the_client_with_it(host: Host):
    assert host.run("sleep", "600", SERVER_CODE="70").code == 70


def test_the_key_does_not_get_into_what_the_script_prints(host: Host):
    ended = host.run("true")
    assert "sk-of" not in ended.output + ended.errors


def test_a_hang_or_a_lost_node_is_requeued(host: Host):
    ended = host.run("sleep", "600", SERVER_CODE="75")
    assert (ended.code, ended.said) == (75, ["requeue 812"])
    assert "requeued, 1 of at most 2 times" in ended.errors


def test_requeues_are_bounded(host: Host):
    assert host.run(SERVER_CODE="75", SLURM_RESTART_COUNT="1").said == ["requeue 812"]
    (host.directory / "said").unlink()
    ended = host.run(SERVER_CODE="75", SLURM_RESTART_COUNT="2")
    assert (ended.code, ended.said) == (75, [])
    assert "given up" in ended.errors


@pytest.mark.parametrize("code", ["70", "71", "76", "78"])
def test_any_other_failure_ends_the_job_with_its_code(host: Host, code: str):
    ended = host.run(SERVER_CODE=code)
    assert (ended.code, ended.said) == (int(code), [])


def test_a_server_that_ends_before_it_is_ready_ends_the_wait_too(host: Host):
    assert host.run("true", SERVER_CODE="70", NEVER_READY="1").code == 70


def test_a_wait_that_fails_starts_no_client(host: Host):
    ended = host.run("echo", "started", WAIT_CODE="75")
    assert ended.code == 75
    assert "started" not in ended.output


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SUPERVISE_IMAGE", "SLURM_JOB_ACCOUNT"])
def test_what_the_job_needs_is_asked_for_before_anything_starts(host: Host, name: str):
    ended = host.run("true", without=name)
    assert (ended.code, ended.options) == (78, [])
    assert ended.errors.startswith("batch script: ")


def test_an_account_that_differs_from_the_one_asked_for_is_told(host: Host):
    assert "runs on the account a0" in host.run("true", SBATCH_ACCOUNT="a1").errors
    assert "account" not in host.run("true", SBATCH_ACCOUNT="a0").errors


def test_the_server_gets_the_whole_node_and_leaves_no_core(host: Host):
    ended = host.run("bash", "-c", 'echo "core limit: $(ulimit -c)"')
    assert "--cpus-per-task=192" in ended.options
    assert "core limit: 0" in ended.output
