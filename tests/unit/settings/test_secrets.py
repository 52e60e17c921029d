"""Secrets: one key from one place, and never a word of it in a message."""

import errno
from pathlib import Path
from unittest.mock import Mock

import pytest

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings.schema import EngineSettings, ModelSettings, Settings
from entrypoint.settings.secrets import LARGEST_BYTES, read_secrets


def with_key_file(path: Path) -> Settings:
    return Settings(engine=EngineSettings(api_key_file=path))


def refusal(settings: Settings, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(SuperviseError) as caught:
        read_secrets(settings, environ or {})
    assert caught.value.code is ExitCode.CONFIGURATION
    assert caught.value.remedy
    return str(caught.value)


def test_without_any_secret_there_is_none():
    secrets = read_secrets(Settings(), {})
    assert (secrets.api_key, secrets.admin_api_key, secrets.hf_token) == (None, None, None)
    assert secrets.values() == ()


def test_a_key_comes_from_its_setting():
    settings = Settings.model_validate({"engine": {"api_key": "sekrit", "admin_api_key": "boss"}})
    assert read_secrets(settings, {}).values() == ("sekrit", "boss")


@pytest.mark.parametrize("content", ["sekrit", "sekrit\n", "sekrit\r\n"])
def test_a_key_comes_from_its_file_without_the_end_of_the_line(tmp_path: Path, content: str):
    (tmp_path / "key").write_bytes(content.encode())
    assert read_secrets(with_key_file(tmp_path / "key"), {}).values() == ("sekrit",)


def test_the_administrative_key_and_the_token_come_from_files_too(tmp_path: Path):
    (tmp_path / "admin").write_text("boss\n")
    (tmp_path / "hub").write_text("hf_abc\n")
    settings = Settings(
        engine=EngineSettings(admin_api_key_file=tmp_path / "admin"),
        model=ModelSettings(hf_token_file=tmp_path / "hub"),
    )
    secrets = read_secrets(settings, {"HF_TOKEN": "hf_weaker"})
    assert secrets.values() == ("boss", "hf_abc")


def test_the_token_comes_from_the_environment_when_no_file_is_named():
    assert read_secrets(Settings(), {"HF_TOKEN": "hf_abc"}).values() == ("hf_abc",)


def test_an_empty_token_in_the_environment_is_none():
    assert read_secrets(Settings(), {"HF_TOKEN": ""}).hf_token is None


def test_a_key_and_its_file_together_are_an_error(tmp_path: Path):
    settings = Settings.model_validate({"engine": {"api_key": "sekrit", "api_key_file": tmp_path / "key"}})
    message = refusal(settings)
    assert "engine.api_key and engine.api_key_file are both set" in message
    assert "sekrit" not in message


def test_a_key_and_the_other_keys_file_go_together(tmp_path: Path):
    (tmp_path / "admin").write_text("boss")
    settings = Settings.model_validate({"engine": {"api_key": "sekrit", "admin_api_key_file": tmp_path / "admin"}})
    assert read_secrets(settings, {}).values() == ("sekrit", "boss")


def test_a_missing_file_is_named_with_its_setting(tmp_path: Path):
    assert f"engine.api_key_file: '{tmp_path}/key' does not exist" in refusal(with_key_file(tmp_path / "key"))


@pytest.mark.parametrize("content", ["", "\n"])
def test_an_empty_file_is_an_error(tmp_path: Path, content: str):
    (tmp_path / "key").write_text(content)
    assert "is empty" in refusal(with_key_file(tmp_path / "key"))


@pytest.mark.parametrize(
    "content",
    [b"sekrit\nmore\n", b"sekrit\n\n", b"sekrit" * LARGEST_BYTES],
    ids=["two lines", "an empty second line", "huge"],
)
def test_a_file_of_more_than_one_line_is_an_error_that_shows_none_of_it(tmp_path: Path, content: bytes):
    (tmp_path / "key").write_bytes(content)
    message = refusal(with_key_file(tmp_path / "key"))
    assert "more than one line" in message
    assert "sekrit" not in message


@pytest.mark.parametrize("content", [b"sekrit ", b" sekrit", b"sek\trit", b"sek\xffrit", b"sek\0rit", b"sek rit\n"])
def test_what_cannot_stand_in_a_header_is_no_key(tmp_path: Path, content: bytes):
    (tmp_path / "key").write_bytes(content)
    message = refusal(with_key_file(tmp_path / "key"))
    assert "holds blanks" in message
    assert "sek" not in message


def test_a_key_of_a_setting_and_a_token_of_the_environment_are_checked_alike():
    assert "engine.api_key holds blanks" in refusal(Settings.model_validate({"engine": {"api_key": "a b"}}))
    assert "HF_TOKEN holds blanks" in refusal(Settings(), {"HF_TOKEN": "a b"})


def test_a_directory_is_no_key(tmp_path: Path):
    assert "cannot be read: Is a directory" in refusal(with_key_file(tmp_path))


def test_a_path_that_no_file_can_have_is_an_error():
    assert "cannot be read" in refusal(with_key_file(Path("a\0b")))


def test_an_unreadable_file_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "open", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
    assert "engine.api_key_file: 'key' cannot be read: Permission denied" in refusal(with_key_file(Path("key")))


def test_secrets_do_not_show_themselves():
    assert "sekrit" not in repr(read_secrets(Settings.model_validate({"engine": {"api_key": "sekrit"}}), {}))
