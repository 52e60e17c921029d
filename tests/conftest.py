"""What tests of several layers share."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from harness import Supervised

pytest_plugins = ["closing_table", "pytester"]

ROOT = Path(__file__).resolve().parent.parent
FAKE_SITE = ROOT / "tests" / "fake_site"


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
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}))
    (model / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (model / "model.safetensors").write_bytes(b"\x02\x00\x00\x00\x00\x00\x00\x00{}")
    return model


@pytest.fixture
def start_fake(
    tmp_path: Path, fake_model: Path, free_ports: Iterator[int]
) -> Iterator[Callable[..., Supervised]]:
    """Return a function that makes a run with the stand-in engine: more arguments, and its faults by name."""
    runs: list[Supervised] = []

    def make(*arguments: str, environment: Mapping[str, str] | None = None, **faults: Any) -> Supervised:
        directory = tmp_path / f"run{len(runs)}"
        directory.mkdir()
        engine_port, health_port = next(free_ports), next(free_ports)
        complete = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "PYTHONPATH": str(FAKE_SITE),
            "FAKE_ENGINE": json.dumps(faults),
            "SUPERVISE_PROFILE": "tiny",
            "SUPERVISE_ENGINE__PYTHON": sys.executable,
            "SUPERVISE_ENGINE__PORT": str(engine_port),
            "SUPERVISE_MODEL__PATH": str(fake_model),
            "SUPERVISE_HEALTH__PORT": str(health_port),
            "SUPERVISE_CACHES__SHARED": str(tmp_path / "caches"),
            "SUPERVISE_LOGS__FORMAT": "console",
            **(environment or {}),
        }
        run = Supervised(list(arguments), complete, directory, engine_port, health_port)
        runs.append(run)
        return run

    yield make
    for run in runs:
        if run.started:
            run.end()


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
