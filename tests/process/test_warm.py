"""``supervise warm`` with a stand-in for aiter: what it builds, what it finds, and what it does about others."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

STANDIN = Path(__file__).resolve().parent.parent / "standin_aiter"
STEPS = '[[step]]\nname = "quant"\nmodule = "module_quant"\n[[step]]\nname = "sampling"\nmodule = "module_sample"\n'
Warm = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    """Start ``supervise warm`` with two steps; words and the stand-in's switches may be added."""
    (tmp_path / "steps.toml").write_text(STEPS)
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, **switches: str) -> subprocess.Popen[str]:
        settings = {
            "CACHES__SHARED": str(tmp_path / "shared"),
            "CACHES__LOCAL": str(tmp_path / "local"),
            "LOGS__DIR": str(tmp_path / "logs"),
            "WARM__STEPS": str(tmp_path / "steps.toml"),
            "ENGINE__PYTHON": sys.executable,
            "ENGINE__DEVICE": "cpu",
            "CACHES__KEY": "test",
        }
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(STANDIN), *filter(None, sys.path)]),
            "STANDIN_AITER_SECONDS": "0.2",
            **{f"SUPERVISE_{name}": value for name, value in settings.items()},
            **{f"STANDIN_AITER_{name}": value for name, value in switches.items()},
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "entrypoint", "warm", *words],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def report(process: "subprocess.Popen[str]", code: int = 0) -> dict[str, Any]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    found: dict[str, Any] = json.loads(out)
    return found


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {step["step"]: step["outcome"] for step in found["steps"]}


def test_what_is_cold_is_built_and_kept_in_the_shared_tree(warm: Warm, tmp_path: Path):
    found = report(warm("--format", "json"))
    assert outcomes(found) == {"quant": "built", "sampling": "built"}
    kept = sorted(path.name for path in (tmp_path / "shared/test/cpu/any/aiter/jit").iterdir())
    assert kept == ["module_quant.so", "module_sample.so"]


def test_a_second_time_builds_nothing_and_says_so(warm: Warm):
    report(warm("--format", "json"))
    found = report(warm("--format", "json"))
    assert found["steps"] == []
    assert found["summary"].startswith("everything is built: 2 libraries")
    assert found["vouched"] is True


def test_another_node_takes_it_from_the_shared_tree(warm: Warm, tmp_path: Path):
    report(warm("--format", "json"))
    found = report(warm("--format", "json", "--caches.local", str(tmp_path / "other")))
    assert found["summary"].startswith("everything is built")
    assert (tmp_path / "other/test/cpu/any/aiter/jit/module_quant.so").exists()


def test_what_a_purge_took_is_built_again(warm: Warm, tmp_path: Path):
    report(warm("--format", "json"))
    for tree in ("shared", "local"):
        (tmp_path / tree / "test/cpu/any/aiter/jit/module_quant.so").unlink()
    assert outcomes(report(warm("--format", "json"))) == {"quant": "built", "sampling": "found"}


def test_a_failed_step_is_told_with_its_compiler_and_tried_again(warm: Warm):
    found = report(warm("--format", "json", FAIL="module_quant"), code=69)
    assert outcomes(found) == {"quant": "failed", "sampling": "built"}
    assert [finding["rule"] for finding in found["findings"]] == ["warm-failed"]
    assert outcomes(report(warm("--format", "json"))) == {"quant": "built", "sampling": "found"}


def test_of_eight_at_once_one_builds_and_the_others_have_it_too(warm: Warm):
    together = [warm("--format", "json") for _ in range(8)]
    found = [report(process) for process in together]
    builders = [each for each in found if "built" in outcomes(each).values()]
    assert len(builders) == 1
    assert all(each["vouched"] for each in found)


def test_a_live_lock_is_not_broken_and_the_build_goes_elsewhere(warm: Warm, tmp_path: Path):
    (tmp_path / "local").mkdir(mode=0o700)
    lock = tmp_path / "local/test/cpu/any/aiter/jit/build/lock_module_quant"
    lock.parent.mkdir(parents=True)
    descriptor = os.open(lock, os.O_CREAT | os.O_EXCL)
    try:
        found = report(warm("--format", "json"))
    finally:
        os.close(descriptor)
    assert lock.exists()
    assert outcomes(found) == {"quant": "built", "sampling": "built"}
    (finding,) = found["findings"]
    assert finding["rule"] == "cache-locked"
    assert f"Pid {os.getpid()} on " in finding["message"]
    assert not found["vouched"]
    assert not [path for path in lock.parents[2].iterdir() if path.name.startswith("jit.")]


def test_a_lock_that_nobody_holds_is_removed_and_nothing_hangs(warm: Warm, tmp_path: Path):
    (tmp_path / "local").mkdir(mode=0o700)
    lock = tmp_path / "local/test/cpu/any/aiter/jit/build/lock_module_quant"
    lock.parent.mkdir(parents=True)
    lock.touch()
    found = report(warm("--format", "json"))
    assert not lock.exists()
    assert (found["findings"], found["vouched"]) == ([], True)


def test_a_builder_that_was_killed_in_the_middle_leaves_nothing_that_the_next_waits_for(warm: Warm):
    first = warm(HANG="module_quant")
    assert first.stderr is not None
    assert "build" in first.stderr.readline()
    first.kill()
    first.communicate()
    assert outcomes(report(warm("--format", "json"))) == {"quant": "built", "sampling": "built"}


def test_a_directory_of_somebody_else_is_refused(warm: Warm, tmp_path: Path):
    (tmp_path / "local").mkdir(mode=0o777)
    (tmp_path / "local").chmod(0o777)
    found = report(warm("--format", "json"), code=73)
    assert [finding["rule"] for finding in found["findings"]] == ["cache-tree-foreign"]


def test_a_wrong_file_of_steps_is_refused_by_name(warm: Warm, tmp_path: Path):
    (tmp_path / "steps.toml").write_text("[[step]]\n")
    process = warm()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 78
    assert "steps.toml" in err


def test_prune_removes_what_other_software_left_and_nothing_of_this(warm: Warm, tmp_path: Path):
    report(warm("--format", "json", "--caches.key", "old"))
    report(warm("--format", "json"))
    process = warm("--prune", "0")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.count("removed") == 2
    assert [path.name for path in (tmp_path / "shared").iterdir() if path.name != "flags"] == ["test"]
