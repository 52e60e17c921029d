import stat
from pathlib import Path

import pytest

from entrypoint.engine.flag_store import FlagStore, file_name
from entrypoint.engine.flags import Flag, FlagKind, FlagTable

PYTHON = Path("/opt/venv/bin/python")
TABLE = FlagTable("0.5.23", (Flag(("--port",), "port", FlagKind.ONE, "int"),), "3.12.3")


def test_a_saved_table_is_found_again(tmp_path: Path):
    store = FlagStore(read_only=(), directory=tmp_path / "new" / "flags")
    path = store.save(TABLE, PYTHON)
    found = store.load("0.5.23", PYTHON)
    assert (found.table, found.source, found.ignored) == (TABLE, path, ())


def test_a_saved_table_can_be_read_by_all_and_leaves_nothing_else_behind(tmp_path: Path):
    path = FlagStore((), tmp_path).save(TABLE, PYTHON)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_saving_again_replaces_the_table(tmp_path: Path):
    store = FlagStore((), tmp_path)
    store.save(FlagTable("0.5.23", ()), PYTHON)
    store.save(TABLE, PYTHON)
    assert store.load("0.5.23", PYTHON).table == TABLE


def test_an_interrupted_save_keeps_the_old_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = FlagStore((), tmp_path)
    store.save(TABLE, PYTHON)

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.raises(OSError, match="No space"):
        store.save(FlagTable("0.5.23", ()), PYTHON)
    assert store.load("0.5.23", PYTHON).table == TABLE
    assert len(list(tmp_path.iterdir())) == 1


def test_an_engine_never_asked_has_no_table_and_no_complaint(tmp_path: Path):
    found = FlagStore((tmp_path / "image",), tmp_path / "own").load("0.5.23", PYTHON)
    assert (found.table, found.source, found.ignored) == (None, None, ())


def test_the_images_table_goes_before_ones_own(tmp_path: Path):
    image, own = tmp_path / "image", tmp_path / "own"
    FlagStore((), image).save(TABLE, PYTHON)
    store = FlagStore((image,), own)
    store.save(FlagTable("0.5.23", ()), PYTHON)
    assert store.load("0.5.23", PYTHON).table == TABLE


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 99, "version": "0.5.23", "flags": []}'])
def test_a_broken_file_is_named_and_the_next_one_is_used(tmp_path: Path, content: str):
    image, own = tmp_path / "image", tmp_path / "own"
    image.mkdir()
    broken = image / file_name("0.5.23", PYTHON)
    broken.write_text(content)
    store = FlagStore((image,), own)
    store.save(TABLE, PYTHON)
    found = store.load("0.5.23", PYTHON)
    assert found.table == TABLE
    [reason] = found.ignored
    assert reason.startswith(f"{broken} is ignored: ")


def test_a_table_of_another_version_under_this_name_is_not_used(tmp_path: Path):
    (tmp_path / file_name("0.5.23", PYTHON)).write_text(FlagTable("0.5.1", ()).to_json())
    found = FlagStore((tmp_path,), None).load("0.5.23", PYTHON)
    assert found.table is None
    assert "version 0.5.1, not 0.5.23" in found.ignored[0]


def test_a_directory_in_place_of_the_file_is_not_used(tmp_path: Path):
    (tmp_path / file_name("0.5.23", PYTHON)).mkdir()
    assert "Is a directory" in FlagStore((tmp_path,), None).load("0.5.23", PYTHON).ignored[0]


def test_a_store_without_a_directory_of_its_own_writes_nothing(tmp_path: Path):
    assert FlagStore((tmp_path,), None).save(TABLE, PYTHON) is None
    assert list(tmp_path.iterdir()) == []


def test_another_version_or_another_environment_is_another_engine():
    assert file_name("0.5.23", PYTHON) != file_name("0.5.22", PYTHON)
    assert file_name("0.5.23", PYTHON) != file_name("0.5.23", Path("/opt/other/bin/python"))


def test_the_names_of_one_environments_interpreter_are_one_engine():
    assert file_name("0.5.23", PYTHON) == file_name("0.5.23", PYTHON.with_name("python3"))


def test_environments_that_share_a_base_interpreter_are_different_engines(tmp_path: Path):
    base = tmp_path / "base"
    base.touch()
    pythons = [tmp_path / name / "bin" / "python" for name in ("a", "b")]
    for python in pythons:
        python.parent.mkdir(parents=True)
        python.symlink_to(base)
    assert file_name("1", pythons[0]) != file_name("1", pythons[1])


def test_a_link_to_an_environment_is_that_environment(tmp_path: Path):
    (tmp_path / "real" / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    assert file_name("1", tmp_path / "link/bin/python") == file_name("1", tmp_path / "real/bin/python")
