"""What the tests in a Slurm cluster share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.slurm import SlurmCluster, reason_against


@pytest.fixture(scope="package")
def limiting_cluster() -> Iterator[SlurmCluster]:
    """A cluster of one node that limits memory."""
    if reason := reason_against(cgroup=True):
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="slurm-") as directory, SlurmCluster(Path(directory), cgroup=True) as made:
        yield made
