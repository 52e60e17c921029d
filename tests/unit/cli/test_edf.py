"""``supervise edf`` and ``supervise sbatch``."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from entrypoint.batch.job import make_job
from entrypoint.batch.script import script
from entrypoint.cli import main
from entrypoint.edf.render import render
from entrypoint.settings import profiles
from entrypoint.site.reading import read_site

PACKAGED = sorted((Path(__file__).parents[3] / "edf").glob("*.toml"))
pytestmark = pytest.mark.usefixtures("machine")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def broken(machine: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An EDF of a single node with three faults."""
    monkeypatch.setenv("SUPERVISE_IMAGE", "me/serving")
    text = render(profiles.read("qwen38"), 1, read_site("beverin"))
    path = machine.cwd / "broken.toml"
    path.write_text(text.replace("image =", "imgae =").replace("[env]", '[env]\nNCCL_NET = "x"'))
    return path


def test_an_edf_is_written_to_stdout(capsys: Captured):
    assert main(["edf", "render", "--profile", "qwen38"]) == 0
    assert capsys.readouterr().out == render(profiles.read("qwen38"), 1, read_site("beverin"))
    assert main(["edf", "render", "--profile", "qwen38", "--nodes", "2", "--site", "beverin"]) == 0
    assert capsys.readouterr().out == render(profiles.read("qwen38"), 2, read_site("beverin"))


def test_every_packaged_edf_is_accepted(capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPERVISE_IMAGE", "me/serving")
    assert main(["edf", "check", *map(str, PACKAGED)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{path}: nothing to report" for path in PACKAGED]


def test_every_packaged_edf_is_accepted_where_nothing_is_exported(capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SUPERVISE_IMAGE", raising=False)
    assert main(["edf", "check", *map(str, PACKAGED)]) == 0
    said = capsys.readouterr().out
    assert said.count("SUPERVISE_IMAGE is not set here") == 1
    assert all(path.name in said for path in PACKAGED)


def test_a_broken_edf_is_refused_with_its_file_and_faults(broken: Path, capsys: Captured):
    assert main(["edf", "check", str(broken)]) == 78
    said = capsys.readouterr().out
    for words in ("broken.toml: There is no key 'imgae'", "edf-no-image", "edf-network-on-one-node"):
        assert words in said


def test_findings_are_json_for_programs(broken: Path, capsys: Captured):
    assert main(["edf", "check", str(broken), str(PACKAGED[0]), "--format", "json"]) == 78
    first, second = json.loads(capsys.readouterr().out)
    assert first["file"] == str(broken)
    assert [row["rule"] for row in first["findings"]] == ["edf-unknown-key", "edf-no-image", "edf-network-on-one-node"]
    assert second == {"file": str(PACKAGED[0]), "findings": []}


def test_a_rule_can_be_silenced(broken: Path):
    words = [word for rule in ("edf-unknown-key", "edf-no-image") for word in ("--ignore", rule)]
    assert main(["edf", "check", str(broken), *words]) == 78
    assert main(["edf", "check", str(broken), *words, "--ignore", "edf-network-on-one-node"]) == 0


def test_nodes_and_profile_sharpen_a_check(broken: Path, capsys: Captured):
    assert main(["edf", "check", str(broken), "--nodes", "4", "--profile", "kimi27"]) == 78
    said = capsys.readouterr().out
    assert "edf-hook-missing" in said
    assert "SGLANG_ROCM_FUSED_DECODE_MLA" in said


def test_an_edf_is_found_as_srun_finds_it(broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "search").mkdir()
    broken.rename(tmp_path / "search" / "mine.toml")
    monkeypatch.setenv("EDF_PATH", str(tmp_path / "search"))
    assert main(["edf", "check", "mine", "--ignore", "edf-unreadable"]) == 78
    assert main(["edf", "check", "other", "--ignore", "edf-unreadable"]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["edf", "render"], "wants a profile"),
        (["edf", "render", "x.toml", "--profile", "tiny"], "no files"),
        (["edf", "check"], "wants the files"),
    ],
)
def test_what_is_missing_on_the_command_line_is_a_usage_error(words: list[str], says: str, capsys: Captured):
    assert main(words) == 64
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("nodes", ["0", "-1", "four"])
def test_nodes_are_a_number_of_at_least_one(nodes: str, capsys: Captured):
    with pytest.raises(SystemExit) as caught:
        main(["sbatch", "--profile", "tiny", "--nodes", nodes])
    assert caught.value.code == 64
    assert "--nodes" in capsys.readouterr().err


def test_a_site_that_is_not_there_is_a_wrong_setting(capsys: Captured):
    assert main(["sbatch", "--profile", "tiny", "--site", "nowhere"]) == 78
    assert "no packaged site 'nowhere'" in capsys.readouterr().err


def test_a_script_is_written_to_stdout(capsys: Captured):
    site = read_site("beverin")
    assert main(["sbatch", "--profile", "kimi27", "--nodes", "8", "--time", "12:00:00"]) == 0
    printed = capsys.readouterr()
    job = make_job(profiles.read("kimi27"), site, site_word="beverin", nodes=8, time="12:00:00")
    assert (printed.out, printed.err) == (script(job), "")


def test_a_script_is_written_to_a_file_that_can_be_run(capsys: Captured):
    assert main(["sbatch", "--profile", "kimi27", "--output", "job.sh"]) == 0
    assert capsys.readouterr().out == ""
    assert Path("job.sh").read_text().startswith("#!/bin/bash\n")
    assert Path("job.sh").stat().st_mode & stat.S_IXUSR


def test_a_file_that_cannot_be_written_is_told(capsys: Captured):
    assert main(["sbatch", "--profile", "kimi27", "--output", "none/job.sh"]) == 73
    assert "none/job.sh" in capsys.readouterr().err


def test_a_time_too_short_to_get_ready_is_told_beside_the_script(capsys: Captured):
    assert main(["sbatch", "--profile", "kimi27", "--time", "60"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("#!/bin/bash\n")
    assert "kimi27 may take 2 h to be ready" in printed.err


def test_the_image_of_the_edfs_is_no_setting():
    """The variable that EDFs need must not end the run that they are for."""
    done = subprocess.run(
        [sys.executable, "-m", "entrypoint", "--profile", "tiny", "--model.path", "/nonexistent", "--dry-run"],
        env={**os.environ, "SUPERVISE_IMAGE": "me/serving"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "SUPERVISE_IMAGE" not in done.stderr
