import os
from pathlib import Path

import pytest

from entrypoint.engine.model_location import ModelSource, hub_directory, locate, location_finding
from entrypoint.findings import Severity
from entrypoint.outcome import ExitCode

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cache(hub: Path, name: str = "models--Qwen--Qwen3-8B", ref: str = "main") -> Path:
    """Put a snapshot in a hub cache and return its directory."""
    repository = hub / name
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / ref).write_text(COMMIT)
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True, exist_ok=True)
    return snapshot


def test_a_directory_is_itself(tmp_path: Path):
    found = locate(str(tmp_path), hub=tmp_path)
    assert (found.source, found.directory) == (ModelSource.DIRECTORY, tmp_path)
    assert location_finding(found) is None


def test_a_directory_named_like_a_hub_id_wins_over_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    cache(tmp_path / "hub")
    assert locate("Qwen/Qwen3-8B", hub=tmp_path / "hub").source is ModelSource.DIRECTORY


def test_a_cached_hub_model_is_its_snapshot(tmp_path: Path):
    snapshot = cache(tmp_path)
    found = locate("Qwen/Qwen3-8B", hub=tmp_path)
    assert (found.source, found.directory) == (ModelSource.SNAPSHOT, snapshot)
    assert location_finding(found) is None


@pytest.mark.parametrize("revision", ["v1.0", COMMIT])
def test_a_revision_is_a_branch_a_tag_or_a_commit(tmp_path: Path, revision: str):
    snapshot = cache(tmp_path, ref="v1.0")
    assert locate("Qwen/Qwen3-8B", hub=tmp_path, revision=revision).directory == snapshot


@pytest.mark.parametrize("revision", ["other", "../snapshots"])
def test_a_revision_that_is_not_cached_is_not_downloaded(tmp_path: Path, revision: str):
    cache(tmp_path)
    assert locate("Qwen/Qwen3-8B", hub=tmp_path, revision=revision).source is ModelSource.NOT_DOWNLOADED


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "gpt2", "zai-org/GLM-5.3"])
def test_a_hub_model_that_is_not_cached_is_noted(tmp_path: Path, model: str):
    finding = location_finding(locate(model, hub=tmp_path / "none"))
    assert finding is not None
    assert (finding.rule, finding.severity) == ("model-not-downloaded", Severity.NOTE)


def test_a_cached_name_without_its_commit_is_not_downloaded(tmp_path: Path):
    cache(tmp_path).rmdir()
    assert locate("Qwen/Qwen3-8B", hub=tmp_path).source is ModelSource.NOT_DOWNLOADED


def test_a_missing_directory_names_the_nearest_one(tmp_path: Path):
    (tmp_path / "qwen3-8b").mkdir()
    (tmp_path / "qwen3-9b.txt").touch()
    finding = location_finding(locate(f"{tmp_path}/qwen3-9b/", hub=tmp_path))
    assert finding is not None
    assert (finding.rule, finding.severity, finding.code) == ("model-missing", Severity.ERROR, ExitCode.CONFIGURATION)
    assert str(tmp_path / "qwen3-8b") in finding.remedy
    assert finding.setting == "model.path"


def test_a_missing_parent_is_named_where_the_path_breaks(tmp_path: Path):
    (tmp_path / "models").mkdir()
    finding = location_finding(locate(str(tmp_path / "model" / "qwen"), hub=tmp_path))
    assert finding is not None
    assert f"{tmp_path} holds no model" in finding.message
    assert str(tmp_path / "models") in finding.remedy


def test_a_missing_directory_without_a_namesake_says_so(tmp_path: Path):
    finding = location_finding(locate(str(tmp_path / "qwen"), hub=tmp_path))
    assert finding is not None
    assert "nothing named alike" in finding.remedy


@pytest.mark.parametrize(
    "model", ["./qwen", "../qwen", "~/no-such-model", "a/b/c", "-x/y", "with space", "~nobody-knows/x", "a\0b"]
)
def test_what_is_no_hub_id_is_a_missing_directory(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate(model, hub=tmp_path).source is ModelSource.MISSING
    assert location_finding(locate(model, hub=tmp_path)) is not None


def test_the_home_directory_may_be_abbreviated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "qwen").mkdir()
    assert locate("~/qwen", hub=tmp_path).directory == tmp_path / "qwen"


def test_a_file_is_no_checkpoint(tmp_path: Path):
    (tmp_path / "model.safetensors").touch()
    finding = location_finding(locate(str(tmp_path / "model.safetensors"), hub=tmp_path))
    assert finding is not None
    assert "is a file" in finding.message


@pytest.mark.parametrize("model", ["s3://bucket/model", "model.gguf"])
def test_what_the_engine_reads_by_itself_is_left_to_it(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").touch()
    found = locate(model, hub=tmp_path)
    assert found.source is ModelSource.FOREIGN
    assert location_finding(found) is None


def test_a_directory_that_may_not_be_read_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    finding = location_finding(locate(str(tmp_path), hub=tmp_path))
    assert finding is not None
    assert "may not be read" in finding.message


def test_a_directory_below_one_that_may_not_be_entered_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def denied(self: Path, **_: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", denied)
        found = locate(str(tmp_path / "model"), hub=tmp_path)
    assert found.source is ModelSource.FORBIDDEN


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HF_HUB_CACHE": "/hub", "HF_HOME": "/hf"}, "/hub"),
        ({"HF_HOME": "/hf", "XDG_CACHE_HOME": "/xdg"}, "/hf/hub"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/huggingface/hub"),
        ({"HF_HOME": ""}, "/home/u/.cache/huggingface/hub"),
    ],
)
def test_the_hub_cache_is_where_huggingface_hub_looks(environment: dict[str, str], expected: str):
    assert hub_directory(environment, Path("/home/u")) == Path(expected)
