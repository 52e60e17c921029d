"""What the tests in containers share."""

from collections.abc import Iterator

import pytest
from parts.container import Containers, containers, reason_against


@pytest.fixture(scope="package")
def store() -> Iterator[Containers]:
    """Podman, with a place of its own."""
    if reason := reason_against():
        pytest.skip(reason)
    with containers() as opened:
        yield opened


@pytest.fixture(scope="package")
def image(store: Containers) -> str:
    """Id of a small image of the project, whose entrypoint is supervise."""
    return store.make_image()
