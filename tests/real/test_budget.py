"""The memory budget against the real engine: the predicted pool is the engine's, for the memory that it printed."""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import Supervised
from stage import playing

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PATIENCE_S = 280
CLOSE = 0.03
UNCAPPED = ("--engine.args.max-total-tokens", "", "--prove.enabled", "false")


@dataclass(frozen=True)
class Configuration:
    """One way to serve.

    Attributes:
        arguments: More of the command line.
        config: What is changed in the model's configuration; the weights are then made up.
    """

    arguments: tuple[str, ...]
    config: Mapping[str, Any] | None = None


DEEPER = {"num_hidden_layers": 4, "layer_types": ["full_attention"] * 4, "num_key_value_heads": 4, "head_dim": 64}
CONFIGURATIONS = {
    "a small fraction": Configuration(("--engine.mem_fraction_static", "0.08")),
    "a larger fraction in another type": Configuration(
        ("--engine.mem_fraction_static", "0.12", "--engine.args.dtype", "float32", "--model.context_length", "8192")
    ),
    "a deeper model with other heads": Configuration(
        ("--engine.mem_fraction_static", "0.1", "--engine.args.load-format", "dummy"), DEEPER
    ),
}


def changed(model: Path, directory: Path, config: Mapping[str, Any]) -> Path:
    """Return a copy of a model with another configuration; its weights are not its own any more."""
    directory.mkdir()
    for file in model.iterdir():
        if file.name != "config.json":
            (directory / file.name).symlink_to(file)
    document = json.loads((model / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**document, **config}))
    return directory


def serve(run: Supervised) -> Supervised:
    with run:
        run.wait_state("ready", PATIENCE_S)
        run.signal(15)
        assert run.wait(60) == 0
    return run


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, tiny_models: Mapping[str, str], start_in: Callable[..., Supervised]
) -> Iterator[Mapping[str, Future[Supervised]]]:
    place, model = tmp_path_factory.mktemp("budget"), Path(tiny_models["qwen3"])
    stories = {}
    for name, configuration in CONFIGURATIONS.items():
        directory = place / name.replace(" ", "-")
        directory.mkdir()
        path = (
            changed(model, place / f"model-{directory.name}", configuration.config) if configuration.config else model
        )
        run = start_in(directory, "--model.path", str(path), *UNCAPPED, *configuration.arguments)
        stories[name] = partial(serve, run)
    with playing(stories, at_once=1) as runs:
        yield runs


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_engines_pool_is_the_predicted_one(served: Mapping[str, Future[Supervised]], name: str):
    (pool,) = [event for event in served[name].result().events() if event["event"] == "pool"]
    assert pool["tokens"] == pytest.approx(pool["predicted_tokens"], rel=CLOSE)
    assert pool["difference"] == pytest.approx(pool["tokens"] / pool["predicted_tokens"] - 1, abs=1e-4)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_memory_that_the_plan_counted_with_is_told_beside_the_engines_own(
    served: Mapping[str, Future[Supervised]], name: str
):
    (pool,) = [event for event in served[name].result().events() if event["event"] == "pool"]
    assert pool["predicted_available_bytes"] > 0
    assert pool["available_bytes"] > 0
    findings = [event for event in served[name].result().events() if event.get("rule") == "pool-other"]
    assert findings == []
