"""The batch script: its words, and that bash and shellcheck have nothing to say about it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from entrypoint.batch.job import make_job
from entrypoint.batch.script import script
from entrypoint.settings import profiles
from entrypoint.site.reading import read_site

KINDS = [*((name, None) for name in profiles.names()), ("qwen38", 4), ("kimi27", 8)]


def text_of(profile: str, nodes: int | None = None, site: str = "beverin") -> str:
    return script(make_job(profiles.read(profile), read_site(site), site_word=site, nodes=nodes, time=None))


def step(text: str, name: str) -> list[str]:
    """Return the words of one of the two steps."""
    found = re.search(rf"^{name}=\(\n(.*?)^\)", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return [line.partition(" #")[0].strip() for line in found[1].splitlines()]


def directives(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


@pytest.mark.parametrize(("profile", "nodes"), KINDS)
def test_bash_can_read_it(profile: str, nodes: int | None):
    done = subprocess.run(["bash", "-n"], input=text_of(profile, nodes), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("profile", "nodes"), KINDS)
def test_shellcheck_has_nothing_to_say(profile: str, nodes: int | None):
    if shutil.which("shellcheck") is None:
        pytest.skip("needs the Debian package shellcheck")
    done = subprocess.run(
        ["shellcheck", "--severity=style", "-"],
        input=text_of(profile, nodes),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_job_asks_for_whole_nodes_of_the_right_kind():
    wanted = {
        *("--partition=mi300", "--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=4", "--mem=0", "--exclusive"),
        *("--time=23:00:00", "--signal=USR1@120", "--requeue"),
    }
    assert wanted <= set(directives(text_of("kimi27")))


def test_the_servers_step_has_all_of_each_node():
    words = step(text_of("kimi27"), "server_step")
    assert words == [
        "srun",
        "--nodes=4",
        "--ntasks=4",
        "--ntasks-per-node=1",
        "--gpus-per-node=4",
        '--cpus-per-task="$SLURM_CPUS_ON_NODE"',
        "--mem=0",
        "--kill-on-bad-exit=1",
        '--environment="$edf"',
    ]


def test_several_servers_survive_each_other():
    text = text_of("qwen38", 4)
    assert {"--kill-on-bad-exit=0", "--no-kill"} <= set(step(text, "server_step"))
    assert "--no-kill" in directives(text)
    assert "edf=qwen38-1node" in text


def test_one_server_falls_as_a_whole():
    text = text_of("kimi27")
    assert "--no-kill" not in text
    assert "--kill-on-bad-exit=0" not in text


def test_the_client_has_a_step_beside_the_server():
    words = step(text_of("kimi27"), "client_step")
    assert {"--overlap", "--cpus-per-task=24", "--hint=nomultithread", "--nodes=1", "--ntasks=1"} <= set(words)


def test_no_account_is_named_but_one_is_asked_for():
    text = text_of("kimi27")
    assert not any("account" in line for line in directives(text))
    assert "SBATCH_ACCOUNT" in text


def test_another_site_is_another_file(tmp_path: Path):
    own = tmp_path / "other site.toml"
    own.write_text("""\
title = "Another cluster"
verified = "never"
[slurm]
cluster = "other"
partition = "gpu"
gpus_per_node = 8
cpus_per_node = 64
longest_minutes = 60
usual_minutes = 30
end_signal_s = 200
account = "none"
requeues = 0
client_flags = ["--overlap", "--cpus-per-task=2"]
[container]
workdir = "/scratch"
logs = "/scratch/logs"
mounts = ["/scratch:/scratch"]
""")
    text = text_of("qwen38", site=str(own))
    assert {"--partition=gpu", "--gpus-per-node=8", "--time=00:30:00", "--signal=USR1@200"} <= set(directives(text))
    assert "ACCOUNT" not in text
    assert f"--site.name '{own}'" in text
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


@pytest.mark.parametrize(("profile", "nodes"), KINDS)
def test_what_makes_it_is_written_in_it(profile: str, nodes: int | None):
    count = nodes or profiles.read(profile).nodes
    made_by = f"# Made by: supervise sbatch --profile {profile} --nodes {count} --time 23:00:00 --site beverin"
    assert made_by in text_of(profile, nodes).splitlines()
