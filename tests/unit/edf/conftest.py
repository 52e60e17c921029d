"""A host on which EDFs are read: its variables, its files, and the EDF of each topology to begin with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.edf.check import check
from entrypoint.edf.render import render
from entrypoint.edf.surroundings import Surroundings
from entrypoint.edf.use import Use
from entrypoint.findings import Finding
from entrypoint.settings import profiles
from entrypoint.site.reading import read_site
from entrypoint.site.site import Site

HOST = {"USER": "me", "HOME": "/users/me", "SCRATCH": "/ritom/scratch/me", "SUPERVISE_IMAGE": "me/serving:rocm724"}
Checked = Callable[..., tuple[Finding, ...]]


@pytest.fixture
def site() -> Site:
    return read_site("beverin")


@pytest.fixture
def surroundings(tmp_path: Path) -> Surroundings:
    return Surroundings({**HOST, "EDF_PATH": str(tmp_path)}, cwd=tmp_path, home=Path("/users/me"))


@pytest.fixture
def four_nodes(site: Site) -> str:
    """The right EDF of a server on four nodes."""
    return render(profiles.read("kimi27"), 4, site)


@pytest.fixture
def one_node(site: Site) -> str:
    """The right EDF of a server on one node."""
    return render(profiles.read("qwen38"), 1, site)


@pytest.fixture
def checked(tmp_path: Path, site: Site, surroundings: Surroundings) -> Checked:
    """Return a function that checks a text as an EDF."""

    def of(text: str, nodes: int | None = None, family: str | None = None) -> tuple[Finding, ...]:
        path = tmp_path / "checked.toml"
        path.write_text(text)
        return check(path, Use(nodes, site, family), surroundings)

    return of
