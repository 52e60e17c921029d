"""Private files: whole or not at all."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from entrypoint.tell.files import write_private, write_private_json


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_file_is_its_owners_alone(path: Path):
    write_private(path, "text ü\n")
    assert path.read_text("utf-8") == "text ü\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(path: Path):
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_who_reads_while_it_is_written_reads_the_old_file_or_the_new_one(path: Path):
    write_private(path, "old")
    with path.open() as reader:
        write_private(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(path: Path, tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.symlink_to(victim)
    write_private(path, "new")
    assert victim.read_text() == "precious"
    assert not path.is_symlink()


def test_nothing_that_lies_in_the_way_is_followed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda _: "known")
    (tmp_path / ".file.known").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_private(path, "new")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_what_fails_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
):
    write_private(path, "old")
    monkeypatch.setattr(Path, "replace", Mock(side_effect=error))
    with pytest.raises(type(error)):
        write_private(path, "new")
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_disk_that_is_full_while_writing_leaves_no_half_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    import os

    full = os.open("/dev/full", os.O_WRONLY)
    opened = os.open
    monkeypatch.setattr(os, "open", lambda *arguments: (os.close(opened(*arguments)), full)[1])
    with pytest.raises(OSError, match="No space left"):
        write_private(path, "new")
    monkeypatch.undo()
    assert list(path.parent.iterdir()) == []


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        write_private(tmp_path / "missing" / "file", "text")


def test_broken_characters_are_written_as_escapes(path: Path):
    write_private(path, "a \udcff b")
    assert path.read_text() == "a \\udcff b"


def test_json_ends_with_a_line_and_takes_what_json_does_not_know(path: Path):
    write_private_json(path, {"path": Path("/a"), "n": 1})
    assert path.read_text().endswith("}\n")
    assert json.loads(path.read_text()) == {"path": "/a", "n": 1}
