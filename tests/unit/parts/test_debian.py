"""What a layer of tests needs of Debian: it says what is missing, and installs nothing where that is not allowed."""

import subprocess

import pytest
from parts import debian

LACKING = {"odd": ("dpkg", "no-such-package-anywhere")}


@pytest.fixture(autouse=True)
def apt(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A machine whose root lacks one package; what apt-get is asked for is only noted."""
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(debian, "PACKAGES", LACKING)
    monkeypatch.setattr(debian, "apt_get", lambda *words: asked.append(words))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    return asked


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "PACKAGES", {"odd": ("dpkg",)})


def test_what_is_missing_is_named():
    assert debian.missing("odd") == ["no-such-package-anywhere"]
    assert debian.reason_against("odd") == "needs the Debian packages no-such-package-anywhere"


@pytest.mark.usefixtures("installed")
def test_nothing_stands_against_a_layer_whose_packages_are_installed():
    assert debian.reason_against("odd") is None


@pytest.mark.usefixtures("installed")
def test_a_layer_needs_root(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert debian.reason_against("odd") == "needs root"


def test_what_is_missing_is_installed_with_one_line_that_says_so(
    apt: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
):
    assert debian.main() == 0
    assert apt == [("update",), ("install", "--yes", "--no-install-recommends", "no-such-package-anywhere")]
    assert capsys.readouterr().err == "Installing Debian packages for tests: no-such-package-anywhere.\n"


@pytest.mark.usefixtures("installed")
def test_nothing_is_done_or_said_where_nothing_is_missing(
    apt: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
):
    assert debian.main() == 0
    assert not apt
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("lacks", ["root", "apt-get"])
def test_nothing_is_installed_without_root_or_apt(
    apt: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, lacks: str
):
    if lacks == "root":
        monkeypatch.setattr("os.geteuid", lambda: 1000)
    else:
        monkeypatch.setattr("shutil.which", lambda name: None if name == lacks else f"/usr/bin/{name}")
    assert debian.main() == 0
    assert not apt


def test_a_failure_to_install_is_told_and_leaves_the_layer_to_skip_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*words: str) -> None:
        raise subprocess.CalledProcessError(100, words, output="E: Unable to locate package")

    monkeypatch.setattr(debian, "apt_get", refuse)
    assert debian.main() == 0
    assert "Unable to locate package" in capsys.readouterr().err
