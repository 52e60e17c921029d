import errno
import os
from pathlib import Path

import pytest

from entrypoint.findings import Finding, Severity
from entrypoint.node.directories import writable_finding
from entrypoint.outcome import ExitCode


def check(path: Path) -> Finding | None:
    return writable_finding(path, "logs", "logs.dir")


def refusal(path: Path) -> Finding:
    finding = check(path)
    assert finding is not None
    assert (finding.rule, finding.severity) == ("directory-unusable", Severity.ERROR)
    assert (finding.code, finding.setting) == (ExitCode.DIRECTORY_UNUSABLE, "logs.dir")
    assert "logs.dir" in finding.remedy
    return finding


def fail(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    def raising(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, raising)


def test_a_directory_that_can_be_written_has_no_finding_and_keeps_nothing(tmp_path: Path):
    assert check(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_created_with_its_parents(tmp_path: Path):
    assert check(tmp_path / "a" / "b") is None
    assert (tmp_path / "a" / "b").is_dir()


def test_a_link_to_a_directory_is_a_directory(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert check(tmp_path / "link") is None


@pytest.mark.parametrize("below", ["", "logs", "logs/deep"])
def test_a_file_in_the_way_is_named(tmp_path: Path, below: str):
    (tmp_path / "file").touch()
    assert f"{tmp_path / 'file'} is not a directory" in refusal(tmp_path / "file" / below).message


def test_a_link_to_nothing_in_the_way_is_named(tmp_path: Path):
    (tmp_path / "link").symlink_to("nowhere")
    assert f"{tmp_path / 'link'} is not a directory" in refusal(tmp_path / "link").message


def test_links_in_a_circle_are_refused(tmp_path: Path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert str(tmp_path / "a") in refusal(tmp_path / "a" / "logs").message


def test_a_file_system_that_takes_no_directories_is_refused_in_the_systems_words():
    assert os.strerror(errno.ENOENT) in refusal(Path("/proc/supervise")).message


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_a_lack_of_permission_names_the_user_and_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    fail(monkeypatch, "mkdir", number)
    message = refusal(tmp_path / "a" / "b").message
    assert f"user {os.getuid()} may not write in {tmp_path}" in message


@pytest.mark.parametrize("name", ["open", "write", "fsync"])
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EROFS, "read-only file system"),
        (errno.ENOSPC, "its file system is full"),
        (errno.EDQUOT, "quota there is used up"),
        (errno.ESTALE, "has lost it"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_each_reason_is_told_apart_wherever_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int, reason: str
):
    with monkeypatch.context() as patch:
        fail(patch, name, number)
        finding = refusal(tmp_path)
    assert reason in finding.message
    assert str(tmp_path) in finding.message
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_too_long_is_told(tmp_path: Path):
    assert "its name is too long" in refusal(tmp_path / ("x" * 300)).message
