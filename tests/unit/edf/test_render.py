"""Writing EDFs: for every profile, and those that lie in ``edf/`` are what is written."""

import re
from pathlib import Path

import pytest

from entrypoint.edf.check import check
from entrypoint.edf.presets import presets_for
from entrypoint.edf.reading import read_edf
from entrypoint.edf.render import edf_name, render
from entrypoint.edf.surroundings import Surroundings
from entrypoint.edf.use import Use
from entrypoint.settings import profiles
from entrypoint.site.site import Site

PACKAGED = Path(__file__).parents[3] / "edf"
NAMES = profiles.names()


@pytest.mark.parametrize("name", NAMES)
def test_the_edf_in_the_directory_is_the_one_that_is_written(name: str, site: Site):
    profile = profiles.read(name)
    path = PACKAGED / f"{edf_name(name, profile.nodes)}.toml"
    assert path.read_text() == render(profile, profile.nodes, site)


def test_no_edf_lies_there_without_a_profile_and_the_readme_names_them_all():
    names = {f"{edf_name(name, profiles.read(name).nodes)}.toml" for name in NAMES}
    assert {path.name for path in PACKAGED.glob("*.toml")} == names
    readme = (PACKAGED / "README.md").read_text()
    assert all(name in readme for name in names)


@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_accepted(name: str, nodes: int, site: Site, surroundings: Surroundings, tmp_path: Path):
    profile = profiles.read(name)
    (tmp_path / "a.toml").write_text(render(profile, nodes, site))
    assert check(tmp_path / "a.toml", Use(nodes, site, profile.family), surroundings) == ()


def test_only_several_nodes_have_hooks_and_network_variables(site: Site, surroundings: Surroundings, tmp_path: Path):
    for nodes in (1, 4):
        (tmp_path / f"{nodes}.toml").write_text(render(profiles.read("kimi27"), nodes, site))
    one, four = (read_edf(tmp_path / f"{nodes}.toml", surroundings).edf for nodes in (1, 4))
    assert one.annotations == {}
    assert four.annotations == site.fabric.annotations
    network = {row.name for row in site.fabric.env}
    assert set(four.env) - set(one.env) == network


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_of_the_image_is_reset(name: str, site: Site, surroundings: Surroundings, tmp_path: Path):
    profile = profiles.read(name)
    (tmp_path / "a.toml").write_text(render(profile, 1, site))
    env = read_edf(tmp_path / "a.toml", surroundings).edf.env
    assert {row.name: row.value for row in presets_for(profile.family)}.items() <= env.items()


@pytest.mark.parametrize("path", sorted(PACKAGED.glob("*")), ids=lambda path: path.name)
def test_no_edf_names_an_image_or_a_registry(path: Path):
    text = path.read_text()
    assert not re.search(r"\b(docker|ghcr|quay|nvcr|registry)\.\w+", text)
    if path.suffix == ".toml":
        assert 'image = "${SUPERVISE_IMAGE}"' in text


def test_every_variable_has_its_reason_beside_it(site: Site):
    text = render(profiles.read("kimi27"), 4, site)
    lines = text.partition("[env]\n")[2].partition("\n\n")[0].splitlines()
    assert lines
    assert all(re.fullmatch(r'\w+ = ".*" # \S.*', line) for line in lines)
