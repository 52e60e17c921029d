"""The image's prebuilt kernels, and what hides them."""

from pathlib import Path

import pytest

from entrypoint.warm.prebuilt import hidden_modules_finding, prebuilt_modules


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of an environment of its own."""
    path = tmp_path / "venv" / "bin" / "python3.12"
    path.parent.mkdir(parents=True)
    path.write_text("")
    return path


def build(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_bytes(b"\x7fELF")
    return directory


def test_modules_are_found_in_the_package(python: Path, tmp_path: Path):
    place = build(tmp_path / "venv/lib/python3.12/site-packages/aiter/jit", "module_b.so", "module_a.so", "core.py")
    assert prebuilt_modules(python, tmp_path / "none") == (place / "module_a.so", place / "module_b.so")


def test_modules_are_found_in_the_source_tree_of_the_image(python: Path, tmp_path: Path):
    place = build(tmp_path / "src" / "aiter" / "jit", "module_a.so")
    assert prebuilt_modules(python, tmp_path / "src") == (place / "module_a.so",)


def test_an_image_without_aiter_has_none(python: Path, tmp_path: Path):
    assert prebuilt_modules(python, tmp_path / "none") == ()


def test_an_empty_directory_hides_them(tmp_path: Path):
    modules = (tmp_path / "image" / "module_a.so", tmp_path / "image" / "module_b.so")
    finding = hidden_modules_finding(modules, build(tmp_path / "jit", "notes.txt"))
    assert finding is not None
    assert finding.rule == "aiter-hidden"
    assert "the 2 that the image has prebuilt" in finding.message


def test_a_directory_that_does_not_exist_yet_hides_them_as_well(tmp_path: Path):
    assert hidden_modules_finding((tmp_path / "module_a.so",), tmp_path / "missing") is not None


@pytest.mark.parametrize("case", ["filled", "unset", "nothing built"])
def test_nothing_is_hidden_by_a_filled_directory_or_by_none_or_where_nothing_is_built(tmp_path: Path, case: str):
    filled = build(tmp_path / "jit", "module_a.so")
    modules = () if case == "nothing built" else (tmp_path / "image" / "module_a.so",)
    directory = {"filled": filled, "unset": None, "nothing built": tmp_path / "empty"}[case]
    assert hidden_modules_finding(modules, directory) is None
