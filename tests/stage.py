"""Where runs with the stand-in engine are put up, one after the other or several at a time."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from fake_control import FakeEngine
from harness import Supervised

AT_ONCE = 6
"""Runs that are played at a time: most of them wait for something most of their time."""

Story = Callable[[], Supervised]


def lay_out_model(directory: Path) -> Path:
    """Make a directory with everything that preflight asks of a checkpoint."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}))
    (directory / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    (directory / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (directory / "model.safetensors").write_bytes(b"\x02\x00\x00\x00\x00\x00\x00\x00{}")
    return directory


@dataclass
class Stage:
    """A place for runs.

    Args:
        directory: Each run gets a directory in it.
        model: What they serve.
        ports: Free ports.
    """

    directory: Path
    model: Path
    ports: Iterator[int]
    runs: list[Supervised] = field(default_factory=list)
    _making: Lock = field(default_factory=Lock)

    def make(self, *arguments: str, environment: Mapping[str, str] | None = None, **faults: Any) -> Supervised:
        """Return a run that is not started yet: more arguments, more environment, and its engine's faults by name."""
        with self._making:
            directory = self.directory / f"run{len(self.runs)}"
            directory.mkdir()
            engine = FakeEngine(directory / "board")
            engine.directory.mkdir()
            engine.turn(**faults)
            engine_port, health_port = next(self.ports), next(self.ports)
            complete = {
                "PATH": os.environ["PATH"],
                "HOME": str(directory),
                **engine.environment,
                "SUPERVISE_PROFILE": "tiny",
                "SUPERVISE_ENGINE__PYTHON": engine.python,
                "SUPERVISE_ENGINE__PORT": str(engine_port),
                "SUPERVISE_MODEL__PATH": str(self.model),
                "SUPERVISE_HEALTH__PORT": str(health_port),
                "SUPERVISE_CACHES__SHARED": str(self.directory / "caches"),
                "SUPERVISE_CACHES__LOCAL": str(self.directory / "local"),
                "SUPERVISE_LOGS__FORMAT": "console",
                **(environment or {}),
            }
            run = Supervised(list(arguments), complete, directory, engine_port, health_port, engine=engine)
            self.runs.append(run)
        return run

    def clear(self) -> None:
        """End whatever still runs."""
        for run in self.runs:
            if run.started:
                run.end()


@contextmanager
def playing(stories: Mapping[str, Story], at_once: int = AT_ONCE) -> Iterator[Mapping[str, Future[Supervised]]]:
    """Play stories, several at a time; each future holds the run, or raises what its story raised."""
    with ThreadPoolExecutor(at_once) as pool:
        yield {name: pool.submit(story) for name, story in stories.items()}
