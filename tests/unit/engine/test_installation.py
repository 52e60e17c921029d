import os
from pathlib import Path

import pytest

from entrypoint.engine.installation import find_python, installed_version, package_directories


def make_python(prefix: Path, name: str = "python3", version: str = "3.12") -> Path:
    """Make an interpreter under a prefix, the link of a versioned one as installations have it."""
    binaries = prefix / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    real = binaries / f"python{version}"
    real.touch(mode=0o755)
    python = binaries / name
    python.symlink_to(real.name)
    return python


def install(prefix: Path, version: str, library: str = "lib/python3.12/site-packages", kind: str = "dist") -> None:
    (prefix / library / f"sglang-{version}.{kind}-info").mkdir(parents=True)


def make_environment(path: Path, base: Path, *, shared: bool = False) -> Path:
    """Make a virtual environment whose interpreter is a link to a base interpreter."""
    (path / "bin").mkdir(parents=True)
    python = path / "bin" / "python"
    python.symlink_to(base)
    (path / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = {str(shared).lower()}\n")
    return python


@pytest.mark.parametrize(
    "library",
    [
        "lib/python3.12/site-packages",
        "lib64/python3.12/site-packages",
        "lib/python3.12/dist-packages",
        "lib/python3/dist-packages",
    ],
)
def test_the_version_is_read_beside_the_interpreter(tmp_path: Path, library: str):
    python = make_python(tmp_path)
    install(tmp_path, "0.5.23", library)
    assert installed_version(python) == "0.5.23"


@pytest.mark.parametrize("version", ["0.5.6.post2", "0.5.23+rocm720", "0.5.24.dev3"])
def test_versions_with_suffixes_are_read_whole(tmp_path: Path, version: str):
    python = make_python(tmp_path)
    install(tmp_path, version)
    assert installed_version(python) == version


def test_an_older_kind_of_metadata_counts_as_well(tmp_path: Path):
    python = make_python(tmp_path)
    install(tmp_path, "0.4.9", kind="egg")
    assert installed_version(python) == "0.4.9"


def test_packages_whose_names_begin_alike_are_not_the_engine(tmp_path: Path):
    python = make_python(tmp_path)
    packages = tmp_path / "lib/python3.12/site-packages"
    for name in ("sglang_router-0.3.2.dist-info", "sglang-router-0.3.2.dist-info", "sglang_kernel-1.0.dist-info"):
        (packages / name).mkdir(parents=True)
    assert installed_version(python) is None


def test_the_packages_of_another_python_in_the_same_place_do_not_count(tmp_path: Path):
    python = make_python(tmp_path, version="3.12")
    install(tmp_path, "0.4.0", "lib/python3.10/site-packages")
    assert installed_version(python) is None
    install(tmp_path, "0.5.23", "lib/python3.12/site-packages")
    assert installed_version(python) == "0.5.23"


def test_a_virtual_environment_is_searched_where_its_link_lies(tmp_path: Path):
    base = make_python(tmp_path / "base")
    install(tmp_path / "base", "0.1.0")
    python = make_environment(tmp_path / "venv", base)
    install(tmp_path / "venv", "0.5.23")
    assert installed_version(python) == "0.5.23"


def test_a_closed_virtual_environment_does_not_see_its_base(tmp_path: Path):
    base = make_python(tmp_path / "base")
    install(tmp_path / "base", "0.5.23")
    assert installed_version(make_environment(tmp_path / "venv", base)) is None


def test_a_virtual_environment_that_shares_system_packages_sees_its_base(tmp_path: Path):
    base = make_python(tmp_path / "base")
    install(tmp_path / "base", "0.5.23")
    assert installed_version(make_environment(tmp_path / "venv", base, shared=True)) == "0.5.23"


def test_a_mere_link_to_an_interpreter_is_followed(tmp_path: Path):
    base = make_python(tmp_path / "base")
    install(tmp_path / "base", "0.5.23")
    link = tmp_path / "links" / "bin" / "python3"
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.relpath(base, link.parent))
    assert installed_version(link) == "0.5.23"


def test_the_search_path_of_the_environment_comes_first(tmp_path: Path):
    python = make_python(tmp_path)
    install(tmp_path, "0.5.23")
    install(tmp_path / "override", "0.6.0", ".")
    assert installed_version(python, python_path_env=f":{tmp_path / 'none'}:{tmp_path / 'override'}") == "0.6.0"


def test_a_source_tree_on_the_search_path_hides_the_installed_version(tmp_path: Path):
    python = make_python(tmp_path)
    install(tmp_path, "0.5.23")
    (tmp_path / "tree" / "sglang").mkdir(parents=True)
    (tmp_path / "tree" / "sglang" / "__init__.py").touch()
    assert installed_version(python, python_path_env=str(tmp_path / "tree")) is None


def test_a_missing_interpreter_has_no_version(tmp_path: Path):
    assert installed_version(tmp_path / "bin" / "python") is None


def test_links_in_a_circle_end(tmp_path: Path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "a").symlink_to("b")
    (tmp_path / "bin" / "b").symlink_to("a")
    assert installed_version(tmp_path / "bin" / "a") is None


def test_a_systems_own_python_has_the_local_packages_first():
    directories = package_directories(Path("/usr/bin/python3"))
    local = [place for place, path in enumerate(directories) if path.is_relative_to("/usr/local")]
    own = [place for place, path in enumerate(directories) if not path.is_relative_to("/usr/local")]
    assert not local or not own or max(local) < min(own)


def test_a_configured_interpreter_is_taken_as_it_is(tmp_path: Path):
    missing = tmp_path / "missing"
    assert find_python(missing, path_env="", candidates=(make_python(tmp_path),)) == missing


def test_the_home_directory_may_be_abbreviated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_python(Path("~/venv/bin/python"), path_env="") == tmp_path / "venv/bin/python"


def test_a_candidate_that_exists_goes_before_the_path(tmp_path: Path):
    image = make_python(tmp_path / "image")
    on_path = make_python(tmp_path / "other")
    install(tmp_path / "other", "0.5.23")
    assert find_python(None, path_env=str(on_path.parent), candidates=(image,)) == image


def test_the_first_python_on_the_path_that_has_the_engine_is_taken(tmp_path: Path):
    plain = make_python(tmp_path / "plain")
    engine = make_python(tmp_path / "engine")
    install(tmp_path / "engine", "0.5.23")
    path = f":{tmp_path / 'none'}:{plain.parent}:{engine.parent}"
    assert find_python(None, path_env=path, candidates=(tmp_path / "image/bin/python",)) == engine


def test_a_python_that_has_the_engine_through_the_search_path_is_taken(tmp_path: Path):
    plain = make_python(tmp_path / "plain")
    install(tmp_path / "override", "0.6.0", ".")
    found = find_python(
        None,
        path_env=str(plain.parent),
        candidates=(tmp_path / "image",),
        python_path_env=str(tmp_path / "override"),
    )
    assert found == plain


def test_without_any_engine_the_images_interpreter_is_named(tmp_path: Path):
    plain = make_python(tmp_path / "plain")
    image = tmp_path / "image/bin/python"
    assert find_python(None, path_env=str(plain.parent), candidates=(image,)) == image
