"""A container that runs into its memory limit, with supervise as its first process."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest
from harness import Supervised
from parts.container import Containers
from parts.death import OUT_OF_MEMORY, assert_told_as_out_of_memory
from stage import Stage, playing

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]  # the image is built within the first test's time
TESTS = Path(__file__).resolve().parents[1]
LIMIT_MIB = 300
EATERS = {
    "main": {"eats_at": "load", "hangs_at": "load"},
    "scheduler": {"eats_at": "ready", "eats_who": "scheduler"},
}
IN_IMAGE = {"PATH": "/usr/bin:/bin", "SUPERVISE_ENGINE__PYTHON": "/usr/bin/python3"}
Played = Mapping[str, Future[Supervised]]


def in_container(stage: Stage, store: Containers, image: str, **faults: object) -> Supervised:
    """Return a run in a container with a memory limit that sees its own directory and the stand-in engine."""
    run = stage.make(environment=IN_IMAGE, **faults)
    run.command = store.command(
        image,
        *("--memory", f"{LIMIT_MIB}m", "--memory-swap", f"{LIMIT_MIB}m", "--workdir", str(run.directory)),
        *("--volume", f"{stage.directory}:{stage.directory}", "--volume", f"{TESTS}:{TESTS}:ro"),
        *(word for name, value in run.environment.items() for word in ("--env", f"{name}={value}")),
    )
    return run


def eat(stage: Stage, store: Containers, image: str, who: str) -> Supervised:
    """Have a process of the engine take memory until the kernel kills it."""
    run = in_container(stage, store, image, **EATERS[who])
    with run:
        assert run.wait(60) == OUT_OF_MEMORY
        run.assert_nothing_left()
    return run


@pytest.fixture(scope="module")
def played(stage: Stage, store: Containers, image: str) -> Iterator[Played]:
    with playing({who: partial(eat, stage, store, image, who) for who in EATERS}) as runs:
        yield runs


@pytest.mark.parametrize("who", EATERS)
def test_the_report_names_the_kernels_kill_and_the_containers_limit(played: Played, who: str):
    run = played[who].result()
    assert_told_as_out_of_memory(run.report(), group="/", limit=f"{LIMIT_MIB} MiB")
