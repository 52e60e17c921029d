"""Runs of supervise with SGLang itself, on its CPU engine, with a tiny trained model."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from harness import READY_S, Supervised


def start_real(
    engine: Mapping[str, str], directory: Path, ports: Iterator[int], *arguments: str, profile: str = "tiny"
) -> Supervised:
    """Return a run that is not started yet.

    Args:
        engine: Settings that name the engine and the model, as environment variables.
        directory: Where it runs.
        ports: Free ports.
        arguments: More of its command line.
        profile: The profile.
    """
    engine_port, health_port = next(ports), next(ports)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        **engine,
        "SUPERVISE_PROFILE": profile,
        "SUPERVISE_ENGINE__PORT": str(engine_port),
        "SUPERVISE_HEALTH__PORT": str(health_port),
        "SUPERVISE_CACHES__SHARED": str(directory.parent / "caches"),
        "SUPERVISE_CACHES__LOCAL": str(directory.parent / "local"),
    }
    return Supervised(list(arguments), environment, directory, engine_port, health_port)


@pytest.fixture
def start(cpu_engine: Mapping[str, str], tmp_path: Path, free_ports: Iterator[int]) -> Callable[..., Supervised]:
    """Return a function that makes a run with more arguments."""

    def make(*arguments: str, model: str | None = None) -> Supervised:
        engine = {**cpu_engine, **({"SUPERVISE_MODEL__PATH": model} if model else {})}
        return start_real(engine, tmp_path, free_ports, *arguments)

    return make


@pytest.fixture(scope="session")
def start_in(cpu_engine: Mapping[str, str], free_ports: Iterator[int]) -> Callable[..., Supervised]:
    """Return a function that makes a run in a directory, with more arguments."""

    def make(directory: Path, *arguments: str) -> Supervised:
        return start_real(cpu_engine, directory, free_ports, *arguments)

    return make


@pytest.fixture(scope="module")
def served(
    cpu_engine: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory, free_ports: Iterator[int]
) -> Iterator[Supervised]:
    """A server that is ready, shared by the tests of a module that leave it as it is."""
    with start_real(cpu_engine, tmp_path_factory.mktemp("served"), free_ports) as run:
        run.wait_state("ready", READY_S)
        yield run
