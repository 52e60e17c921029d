"""The batch script in a real Slurm: its steps run beside each other, signals reach the server, and 75 is requeued."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import wait_for
from parts.children import PATIENCE_S
from parts.slurm import SlurmCluster, reason_against

from entrypoint.batch.job import make_job
from entrypoint.batch.script import script
from entrypoint.settings import profiles
from entrypoint.site.reading import read_site

pytestmark = pytest.mark.slurm
SITE = """\
title = "Daemons on this machine"
verified = "by its tests"
[slurm]
cluster = "parts"
partition = "main"
gpus_per_node = 4
cpus_per_node = 16
longest_minutes = 60
usual_minutes = 30
account = "none"
requeues = 1
client_flags = ["--overlap", "--cpus-per-task=2"]
[container]
workdir = "/"
logs = "{directory}/runs"
mounts = []
"""
SRUN = """\
#!/bin/bash
# There is no container here, and Slurm does not know the option.
words=()
for word in "$@"; do [[ "$word" == --environment=* ]] || words+=("$word"); done
exec /usr/bin/srun "${words[@]}"
"""
SUPERVISE = """\
#!/bin/bash
# A server that runs until it is told to drain, or ends with $SERVER_CODE; and whoever waits for it.
here="$(dirname "$0")"
if [[ "$1" == wait ]]; then
  until [[ -e "$here/ready" ]]; do sleep 0.1; done
  echo "export OPENAI_BASE_URL=http://of-$(basename "$3")"
else
  [[ -z "${SERVER_CODE:-}" ]] || exit "$SERVER_CODE"
  drain() {
    touch "$here/draining"
    until [[ -z "${WAITS_FOR_CLIENT:-}" || -e "$here/finished" ]]; do sleep 0.1; done
    echo "drained step $SLURM_STEP_ID with $SLURM_CPUS_ON_NODE cpus"
    exit 0
  }
  trap drain USR1
  touch "$here/ready"
  while :; do sleep 0.1; done
fi
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    if reason := reason_against(cgroup=False):
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="slurm-") as directory, SlurmCluster(Path(directory)) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the script of a job, and what stands in for container and server."""
    for name, text in (("srun", SRUN), ("supervise", SUPERVISE), ("site.toml", SITE.format(directory=tmp_path))):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o700)
    site = str(tmp_path / "site.toml")
    job = make_job(profiles.read("tiny"), read_site(site), site_word=site, nodes=None, time=None)
    (tmp_path / "job.sh").write_text(script(job))
    return tmp_path


def submit(cluster: SlurmCluster, place: Path, name: str, *client: str, **variables: str) -> None:
    given = [f"{key}={value}" for key, value in {"SUPERVISE_IMAGE": "none", **variables}.items()]
    path = f"PATH={place}:/usr/bin:/bin"
    cluster.run(
        "env",
        path,
        *given,
        "/usr/bin/sbatch",
        f"--job-name={name}",
        f"--output={place}/out",
        f"{place}/job.sh",
        *client,
    )


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_client_runs_beside_the_server_and_its_end_drains_it(cluster: SlurmCluster, place: Path):
    submit(cluster, place, "beside", "bash", "-c", 'echo "client of $OPENAI_BASE_URL in step $SLURM_STEP_ID"')
    job = cluster.ended_job("beside")
    said = (place / "out").read_text()
    assert (job["JobState"], job["ExitCode"]) == ("COMPLETED", "0:0"), said
    assert f"client of http://of-{job['JobId']}.0.0 in step 1" in said
    assert "drained step 0 with 16 cpus" in said


def test_a_server_that_hangs_or_loses_a_peer_puts_its_job_back_into_the_queue(cluster: SlurmCluster, place: Path):
    submit(cluster, place, "again", SERVER_CODE="75")
    wait_for(lambda: cluster.job("again")["Restarts"] == "1", PATIENCE_S, "the job requeued")
    wait_for(lambda: cluster.job("again")["JobState"] == "PENDING", PATIENCE_S, "the job in the queue")
    assert "requeued, 1 of at most 1 times" in (place / "out").read_text()


def test_any_other_end_of_the_server_is_the_jobs(cluster: SlurmCluster, place: Path):
    submit(cluster, place, "failed", SERVER_CODE="71")
    assert cluster.ended_job("failed")["ExitCode"] == "71:0", (place / "out").read_text()


def test_a_warning_to_all_steps_drains_the_server_and_lets_the_client_finish(cluster: SlurmCluster, place: Path):
    client = f'until [[ -e {place}/draining ]]; do sleep 0.1; done; echo "client has finished"; touch {place}/finished'
    submit(cluster, place, "warned", "bash", "-c", client, WAITS_FOR_CLIENT="1")
    wait_for(lambda: "\nready: http" in _read(place / "out"), PATIENCE_S, "the client's start")
    # As Slurm itself does before the end: all steps, and not the batch script.
    cluster.run("scancel", "--signal=USR1", cluster.job("warned")["JobId"])
    job = cluster.ended_job("warned")
    said = (place / "out").read_text()
    assert (job["JobState"], job["ExitCode"]) == ("COMPLETED", "0:0"), said
    assert "client has finished" in said
    assert "drained step 0" in said
