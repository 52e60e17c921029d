"""Runs of supervise within one process, one after the other, each with an engine that only ends, in a given way.

``python exit_driver.py DIRECTORY MODEL PYTHON HEALTH_PORT WORD…``, where a word is ``exit-3`` or ``signal-9``. Below
``DIRECTORY/WORD`` it leaves the run's logs and ``outcome.json``: the exit code, and which processes were left.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
from harness import processes_with

from entrypoint.cli import main as supervise

MARK = "ENGINE_THAT_ENDS"
HOW = "HOW_IT_ENDS"


def one(directory: Path, model: str, python: str, health_port: str, word: str) -> None:
    """Let one engine end, and note what came of it."""
    mark = f"{os.getpid()}-{word}"
    place = directory / word
    place.mkdir()
    code = supervise(
        [
            *("--profile", "tiny", "--model.path", model, "--engine.python", python, "--health.port", health_port),
            *("--caches.shared", str(directory / "caches"), "--caches.local", str(directory / "local")),
            *("--logs.dir", str(place / "logs")),
            *(f"--engine.env.{HOW}", word, f"--engine.env.{MARK}", mark),
        ]
    )
    left = processes_with(f"{MARK}={mark}") | {child.pid for child in psutil.Process().children(recursive=True)}
    (place / "outcome.json").write_text(json.dumps({"code": code, "left": sorted(left)}))


def main(words: Sequence[str]) -> None:
    directory, model, python, health_port, *ways = words
    for word in ways:
        one(Path(directory), model, python, health_port, word)


if __name__ == "__main__":
    main(sys.argv[1:])
