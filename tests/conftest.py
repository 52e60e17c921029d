"""What tests of several layers share."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from harness import Supervised
from stage import Stage, lay_out_model

pytest_plugins = ["closing_table", "pytester"]

ROOT = Path(__file__).resolve().parent.parent


def _free_ports() -> Iterator[int]:
    """Yield ports of loopback that nobody listens on, each once."""
    given: set[int] = set()
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in given:
            given.add(port)
            yield port


@pytest.fixture(scope="session")
def free_ports() -> Iterator[int]:
    return _free_ports()


@pytest.fixture
def fake_model(tmp_path: Path) -> Path:
    """A directory with everything that preflight asks of a checkpoint."""
    return lay_out_model(tmp_path / "model")


@pytest.fixture
def start_fake(tmp_path: Path, fake_model: Path, free_ports: Iterator[int]) -> Iterator[Callable[..., Supervised]]:
    """Return a function that makes a run with the stand-in engine: more arguments, and its faults by name."""
    stage = Stage(tmp_path, fake_model, free_ports)
    yield stage.make
    stage.clear()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, free_ports: Iterator[int]) -> Iterator[Stage]:
    """A place for the runs that the tests of a module look at together."""
    directory = tmp_path_factory.mktemp("stage")
    made = Stage(directory, lay_out_model(directory / "model"), free_ports)
    yield made
    made.clear()


@pytest.fixture(scope="session")
def prepared_engine() -> Mapping[str, Any]:
    """SGLang's CPU engine and the tiny models, as ``make engine`` made them."""
    prepare = ROOT / "images" / "cpu" / "prepare.py"
    families = ("qwen3", "kimi_k2", "glm", "gpt-oss")
    words = [word for family in families for word in ("--family", family)]
    result = subprocess.run(
        [sys.executable, str(prepare), "--print-only", "--format", "json", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        pytest.skip(f"no CPU engine: {result.stderr.strip()}")
    prepared: Mapping[str, Any] = json.loads(result.stdout)
    return prepared


@pytest.fixture(scope="session")
def cpu_engine(prepared_engine: Mapping[str, Any]) -> Mapping[str, str]:
    """Settings that name the engine and its tiny model, as environment variables."""
    return {
        "SUPERVISE_ENGINE__PYTHON": prepared_engine["python"],
        "SUPERVISE_MODEL__PATH": prepared_engine["models"]["qwen3"],
    }


@pytest.fixture(scope="session")
def tiny_models(prepared_engine: Mapping[str, Any]) -> Mapping[str, str]:
    """The tiny model of each family."""
    models: Mapping[str, str] = prepared_engine["models"]
    return models
