"""Cache directories are there before the engine starts."""

from pathlib import Path

import pytest

from entrypoint.outcome import ExitCode
from entrypoint.plan.caches import CacheDirectory, CacheLayer
from entrypoint.warm.directories import SETTINGS, prepare


def cache(path: Path, layer: CacheLayer = CacheLayer.LOCAL) -> CacheDirectory:
    return CacheDirectory("TRITON_CACHE_DIR", path, layer, "because", path.parent)


def test_every_directory_is_made_with_its_parents(tmp_path: Path):
    assert prepare([cache(tmp_path / "a" / "b"), cache(tmp_path / "c")]) == ()
    assert (tmp_path / "a" / "b").is_dir()
    assert (tmp_path / "c").is_dir()
    assert list((tmp_path / "c").iterdir()) == []


def test_directories_that_are_there_already_stay_as_they_are(tmp_path: Path):
    (tmp_path / "kernel").write_text("compiled")
    assert prepare([cache(tmp_path)]) == ()
    assert (tmp_path / "kernel").read_text() == "compiled"


@pytest.mark.parametrize(
    ("layer", "setting"),
    [
        (CacheLayer.LOCAL, "caches.local"),
        (CacheLayer.HUB, "caches.hf_home"),
    ],
)
def test_one_that_cannot_be_made_is_named_with_its_setting_and_the_others_are_made(
    tmp_path: Path, layer: CacheLayer, setting: str
):
    (tmp_path / "file").write_text("")
    (finding,) = prepare([cache(tmp_path / "file" / "x", layer), cache(tmp_path / "good")])
    assert (finding.rule, finding.setting, finding.code) == (
        "directory-unusable",
        setting,
        ExitCode.DIRECTORY_UNUSABLE,
    )
    assert "TRITON_CACHE_DIR" in finding.message
    assert (tmp_path / "good").is_dir()


def test_a_layer_that_cannot_be_used_is_reported_once(tmp_path: Path):
    (tmp_path / "file").write_text("")
    local, hub = (tmp_path / "file" / name for name in ("local", "hub"))
    found = prepare([cache(local / "a"), cache(local / "b"), cache(hub / "c", CacheLayer.HUB)])
    assert [finding.setting for finding in found] == ["caches.local", "caches.hf_home"]


def test_every_layer_has_a_setting():
    assert SETTINGS.keys() == set(CacheLayer)
