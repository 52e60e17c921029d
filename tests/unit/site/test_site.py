"""Sites: one file per cluster, packaged or one's own, and a wrong one is refused with its place."""

import re
from pathlib import Path

import pytest

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.site import reading
from entrypoint.site.reading import read_site, site_here, site_names

ROOT = Path(__file__).parents[3]
OWN = """\
title = "A small cluster"
verified = "never"
[slurm]
cluster = "small"
partition = "gpu"
gpus_per_node = 8
cpus_per_node = 64
longest_minutes = 60
usual_minutes = 30
[container]
workdir = "/scratch"
logs = "/scratch/logs"
mounts = ["/scratch:/scratch"]
"""


def refusal(name: str) -> SuperviseError:
    with pytest.raises(SuperviseError) as caught:
        read_site(name)
    return caught.value


@pytest.mark.parametrize("name", site_names())
def test_every_packaged_site_says_what_it_is_and_how_that_is_known(name: str):
    site = read_site(name)
    assert site.name == name
    assert site.title
    assert site.verified


def test_beverin_is_packaged_with_what_its_jobs_need():
    site = read_site("beverin")
    assert (site.slurm.partition, site.slurm.gpus_per_node, site.slurm.cpus_per_node) == ("mi300", 4, 192)
    assert site.slurm.account == "required"
    assert site.slurm.client_flags == ("--overlap", "--cpus-per-task=24", "--hint=nomultithread")
    assert set(site.fabric.annotations.values()) >= {"true", "artifact"}


def test_a_sites_variables_each_have_a_reason():
    site = read_site("beverin")
    assert all(row.reason for row in (*site.container.env, *site.fabric.env))


def test_the_file_system_of_a_path_is_the_one_mounted_above_it():
    site = read_site("beverin")
    fast, slow = site.filesystem_of("/iopsstor/scratch/x"), site.filesystem_of("/ritom/scratch")
    assert fast is not None
    assert (fast.kind, fast.purge_days) == ("lustre", 14)
    assert slow is not None
    assert (slow.kind, slow.purge_days) == ("nfs", None)
    assert site.filesystem_of("/iopsstorage") is None
    assert site.filesystem_of("") is None


def test_the_nearest_mount_counts(tmp_path: Path):
    file = tmp_path / "own.toml"
    rows = [
        '[[filesystems]]\npath = "/a"\nkind = "nfs"\nwhat = ""\n',
        '[[filesystems]]\npath = "/a/b"\nkind = "local"\nwhat = ""\n',
    ]
    file.write_text(OWN + "".join(rows))
    system = read_site(str(file)).filesystem_of("/a/b/c")
    assert system is not None
    assert system.kind == "local"


def test_a_site_of_ones_own_is_a_file(tmp_path: Path):
    file = tmp_path / "small.toml"
    file.write_text(OWN)
    site = read_site(str(file))
    assert (site.name, site.slurm.partition, site.fabric.annotations) == ("small", "gpu", {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (OWN.replace("gpus_per_node = 8", "gpus = 8"), "slurm.gpus_per_node"),
        (OWN + "[colour]\n", "colour"),
        (OWN.replace("longest_minutes = 60", "longest_minutes = 10"), "usual_minutes is more than longest_minutes"),
        (OWN.replace("[slurm]", "[slurm"), "line 3"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, text: str, says: str):
    file = tmp_path / "own.toml"
    file.write_text(text)
    error = refusal(str(file))
    assert error.code is ExitCode.CONFIGURATION
    assert str(file) in error.message
    assert says in error.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    assert "cannot be read" in refusal(str(tmp_path / "none.toml")).message


def test_an_unknown_name_is_refused_with_the_nearest():
    error = refusal("beverinn")
    assert error.code is ExitCode.CONFIGURATION
    assert "Did you mean 'beverin'?" in error.remedy


def test_the_site_here_is_the_one_that_slurm_names_or_the_only_one():
    assert site_here({"SLURM_CLUSTER_NAME": "beverin"}).name == "beverin"
    assert site_here({}).name == "beverin"


def test_of_several_sites_slurm_names_one_or_nobody_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("small", "other"):
        (tmp_path / f"{name}.toml").write_text(OWN.replace('"small"', f'"{name}"'))
    monkeypatch.setattr(reading, "_DIRECTORY", tmp_path)
    assert site_here({"SLURM_CLUSTER_NAME": "small"}).name == "small"
    with pytest.raises(SuperviseError, match="Nothing says which site") as caught:
        site_here({})
    assert caught.value.code is ExitCode.USAGE


def test_no_code_names_a_cluster():
    """Another cluster is a file: whatever is true of one only stands in its file."""
    names = re.compile("|".join([*site_names(), "mi300\\b", "hsn0", "iopsstor", "ritom"]), re.IGNORECASE)
    rooms = [ROOT / "entrypoint" / room for room in ("site", "edf", "batch")]
    found = [path.name for room in rooms for path in room.rglob("*.py") if names.search(path.read_text())]
    found += [path.name for room in rooms for path in room.rglob("*.j2") if names.search(path.read_text())]
    assert found == []
