"""What the tests of whole runs share."""

from collections.abc import Iterator

import pytest
from stage import Stage, lay_out_model


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, free_ports: Iterator[int]) -> Iterator[Stage]:
    """A place for the runs that the tests of a module look at together."""
    directory = tmp_path_factory.mktemp("stage")
    made = Stage(directory, lay_out_model(directory / "model"), free_ports)
    yield made
    made.clear()
