"""Preparing the CPU engine: where things go, what is printed, and what happens when something is in the way."""

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from harness import wait_for

Run = Callable[..., int]
Capture = pytest.CaptureFixture[str]

SCRIPT = Path(__file__).parents[2] / "images" / "cpu" / "prepare.py"


@pytest.fixture
def prepare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module of this test alone."""
    spec = importlib.util.spec_from_file_location("prepare_cpu_engine", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(prepare: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Return a function that runs the script's command line with its home below a directory."""

    def run_with(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["prepare.py", *words])
        monkeypatch.setenv("CPU_ENGINE_HOME", str(tmp_path / "a home"))
        status: int = prepare.main()
        return status

    handler = signal.getsignal(signal.SIGTERM)
    yield run_with
    signal.signal(signal.SIGTERM, handler)


def pretend_prepared(prepare: ModuleType, home: Path, *families: str) -> Any:
    """Make what the script looks at, without an engine."""
    layout = prepare.layout_for(families, {"CPU_ENGINE_HOME": str(home)})
    layout.python.parent.mkdir(parents=True)
    layout.python.touch()
    layout.stamp.touch()
    for model in layout.models.values():
        model.mkdir(parents=True)
    return layout


def test_what_is_prepared_is_printed_for_eval(prepare: ModuleType, run: Run, tmp_path: Path, capsys: Capture):
    layout = pretend_prepared(prepare, tmp_path / "a home", "qwen3")
    assert run() == 0
    printed = capsys.readouterr()
    assert shlex.split(printed.out) == [
        f"SUPERVISE_ENGINE__PYTHON={layout.python}",
        f"SUPERVISE_MODEL__PATH={layout.models['qwen3']}",
    ]
    assert printed.err == ""


def test_json_names_every_family_asked_for(prepare: ModuleType, run: Run, tmp_path: Path, capsys: Capture):
    layout = pretend_prepared(prepare, tmp_path / "a home", "qwen3", "glm")
    assert run("--family", "qwen3", "--family", "glm", "--format", "json") == 0
    models = {family: str(path) for family, path in layout.models.items()}
    assert json.loads(capsys.readouterr().out) == {"python": str(layout.python), "models": models}


def test_print_only_makes_nothing_and_names_what_is_missing(
    prepare: ModuleType, run: Run, tmp_path: Path, capsys: Capture
):
    pretend_prepared(prepare, tmp_path / "a home", "qwen3")
    assert run("--print-only", "--family", "qwen3", "--family", "glm") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "glm-" in printed.err
    assert "qwen3-" not in printed.err
    assert "make engine" in printed.err


def test_an_install_without_its_stamp_is_not_complete(prepare: ModuleType, run: Run, tmp_path: Path, capsys: Capture):
    pretend_prepared(prepare, tmp_path / "a home", "qwen3").stamp.unlink()
    assert run("--print-only") == 1
    assert "the engine in" in capsys.readouterr().err


def test_an_engine_whose_python_is_gone_is_not_complete(prepare: ModuleType, run: Run, tmp_path: Path, capsys: Capture):
    pretend_prepared(prepare, tmp_path / "a home", "qwen3").python.unlink()
    assert run("--print-only") == 1
    assert "the engine in" in capsys.readouterr().err


def test_only_what_is_missing_is_made(prepare: ModuleType, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pretend_prepared(prepare, tmp_path / "a home", "qwen3")
    made: list[str] = []
    monkeypatch.setattr(prepare, "install", lambda _layout: made.append("engine"))
    monkeypatch.setattr(prepare, "train", lambda _layout, family, _directory: made.append(family))
    assert run("--family", "qwen3", "--family", "glm") == 0
    assert made == ["glm"]


def test_an_engine_is_named_by_the_content_of_its_ingredients(prepare: ModuleType, tmp_path: Path):
    file = tmp_path / "requirements.txt"
    file.write_text("torch==2.13.0")
    before = prepare.digest([file])
    assert prepare.digest([file]) == before
    file.write_text("torch==2.13.1")
    assert prepare.digest([file]) != before


def test_the_home_follows_the_cache_directory(prepare: ModuleType, tmp_path: Path):
    assert prepare.home_directory({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "supervise-engine"
    assert prepare.home_directory({"XDG_CACHE_HOME": "/x", "CPU_ENGINE_HOME": str(tmp_path)}) == tmp_path


def test_a_failed_phase_shows_the_end_of_its_output(prepare: ModuleType, tmp_path: Path):
    script = "print(*(f'line {n}' for n in range(50)), sep='\\n'); raise SystemExit(3)"
    with pytest.raises(prepare.PreparationError) as failure:
        prepare.phase("counting", [sys.executable, "-c", script], log=tmp_path / "log")
    message = str(failure.value)
    assert message.startswith("counting: failed with exit status 3")
    assert "line 30\n" in message
    assert "line 29\n" not in message
    assert str(tmp_path / "log") in message


def test_a_phase_that_lasts_says_so(
    prepare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    monkeypatch.setattr(prepare, "HEARTBEAT_S", 0.05)
    prepare.phase("sleeping", [sys.executable, "-c", "import time; time.sleep(0.3)"], log=tmp_path / "log")
    assert "sleeping: 0 s" in capsys.readouterr().err


def test_the_callers_python_variables_are_not_passed_on(
    prepare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    script = "import os; raise SystemExit('PYTHONPATH' in os.environ)"
    prepare.phase("looking", [sys.executable, "-c", script], log=tmp_path / "log")


def test_of_two_runs_at_once_the_second_waits_for_the_first(prepare: ModuleType, tmp_path: Path, capsys: Capture):
    order: list[str] = []

    def second() -> None:
        with prepare.only_one(tmp_path):
            order.append("second")

    with prepare.only_one(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        wait_for(lambda: "waiting for it" in capsys.readouterr().err, 10, "the second run waits")
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_a_killed_run_keeps_the_next_one_waiting_while_its_command_still_writes(prepare: ModuleType, tmp_path: Path):
    script = (
        f"import sys, pathlib; sys.path.insert(0, {str(SCRIPT.parent)!r}); import prepare\n"
        f"home = pathlib.Path({str(tmp_path)!r})\n"
        "with prepare.only_one(home):\n"
        "    prepare.phase('writing', ['sh', '-c', 'echo $$; exec sleep 60'], log=home / 'log')\n"
    )
    first = subprocess.Popen([sys.executable, "-c", script])
    log = tmp_path / "log"
    writing = int(wait_for(lambda: log.exists() and log.read_text().strip(), 10, "the command's process id"))
    first.kill()
    first.wait()
    acquired = threading.Event()

    def second() -> None:
        with prepare.only_one(tmp_path):
            acquired.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert not acquired.wait(0.3)
    os.kill(writing, signal.SIGKILL)
    thread.join(10)
    assert acquired.is_set()


def test_an_unusable_home_is_an_error_without_a_traceback(run: Run, tmp_path: Path, capsys: Capture):
    (tmp_path / "a home").write_text("a file")
    assert run() == 1
    assert "a home" in capsys.readouterr().err
