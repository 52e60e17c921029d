"""What the engine stands on, read from files alone."""

from pathlib import Path

import pytest

from entrypoint.engine.stack import EngineStack, read_stack


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of an environment of its own."""
    path = tmp_path / "venv" / "bin" / "python3.12"
    path.parent.mkdir(parents=True)
    path.write_text("")
    return path


def install(tmp_path: Path, *names: str) -> None:
    for name in names:
        (tmp_path / "venv/lib/python3.12/site-packages" / name).mkdir(parents=True)


def test_versions_come_from_the_installed_distributions(tmp_path: Path, python: Path):
    install(tmp_path, "torch-2.13.0+rocm7.2.dist-info", "amd_aiter-0.1.9.dist-info", "numpy-2.0.dist-info")
    install(tmp_path, "sglang-0.5.23.dist-info", "torch_memory_saver-1.0.dist-info")
    found = read_stack(python, root=tmp_path / "root")
    assert found.distributions == {"torch": "2.13.0+rocm7.2", "amd-aiter": "0.1.9", "sglang": "0.5.23"}
    assert found.versions == "sglang-0.5.23_torch-2.13.0+rocm7.2_amd-aiter-0.1.9"


def test_an_image_tells_its_build_and_its_rocm(tmp_path: Path, python: Path):
    root = tmp_path / "root"
    (root / "opt/supervise").mkdir(parents=True)
    (root / "opt/rocm/.info").mkdir(parents=True)
    (root / "opt/supervise/build-id").write_text("  rocm-2026.12 \nmore\n")
    (root / "opt/rocm/.info/version").write_text("7.2.4-93\n")
    found = read_stack(python, root=root)
    assert (found.build_id, found.rocm) == ("rocm-2026.12", "7.2.4-93")


@pytest.mark.parametrize("content", [b"", b"   \n", b"\xff\xfe"])
def test_a_build_that_is_not_told_is_none(tmp_path: Path, python: Path, content: bytes):
    (tmp_path / "root/opt/supervise").mkdir(parents=True)
    (tmp_path / "root/opt/supervise/build-id").write_bytes(content)
    assert read_stack(python, root=tmp_path / "root").build_id is None


def test_where_nothing_is_installed_nothing_is_known(tmp_path: Path, python: Path):
    assert read_stack(python, root=tmp_path) == EngineStack(None, {}, None)
