"""Foreign commands: they always run, with the engine's environment where the settings allow it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

PRINT = (sys.executable, "-c", "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getpid()]))")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run ``supervise`` with a foreign command, as a process of its own."""

    def start(*command: str, cwd: Path = tmp_path, **environ: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **environ,
        }
        return subprocess.run(
            [sys.executable, "-m", "entrypoint", *command],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return start


def environment_of(done: subprocess.CompletedProcess[str]) -> Mapping[str, str]:
    assert done.returncode == 0, done.stderr
    environment: Mapping[str, str] = json.loads(done.stdout)[1]
    return environment


def test_the_command_gets_its_words_and_its_exit_code_is_ours(run: Run):
    done = run(*PRINT, "--engine.port", "--", "two words")
    assert json.loads(done.stdout)[0] == ["--engine.port", "--", "two words"]
    assert done.stderr == ""
    assert run("sh", "-c", "exit 7").returncode == 7


def test_the_process_becomes_the_command_and_leaves_nobody_above_it():
    process = subprocess.Popen([sys.executable, "-m", "entrypoint", *PRINT], stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)[2] == process.pid


def test_the_environment_is_the_engines(run: Run, tmp_path: Path):
    environment = environment_of(
        run(*PRINT, SUPERVISE_CACHES__LOCAL="/fast", NCCL_NET="ofi", SGLANG_SET_CPU_AFFINITY="1")
    )
    assert environment["SGLANG_SET_CPU_AFFINITY"] == "0"
    assert environment["TRITON_CACHE_DIR"] == "/fast/sglang-unknown/cpu/any/triton"
    assert environment["HF_HOME"] == f"{tmp_path}/.cache/huggingface"
    assert "NCCL_NET" not in environment


def test_home_is_left_alone(run: Run, tmp_path: Path):
    assert environment_of(run(*PRINT))["HOME"] == str(tmp_path)


def test_variables_of_the_settings_file_arrive(run: Run, tmp_path: Path):
    (tmp_path / "supervise.toml").write_text('engine.env.MINE = "yes"\nengine.env.OTHERS = ""')
    environment = environment_of(run(*PRINT, OTHERS="1"))
    assert environment["MINE"] == "yes"
    assert "OTHERS" not in environment


@pytest.mark.parametrize(
    "environ", [{"SUPERVISE_ENGINE__PROT": "1"}, {"SLURM_JOB_ID": "1", "SLURM_PROCID": "x"}, {"SUPERVISE_PROFILE": "?"}]
)
def test_broken_settings_cost_the_environment_and_not_the_command(run: Run, environ: Mapping[str, str]):
    done = run(*PRINT, NCCL_NET="ofi", **environ)
    environment = environment_of(done)
    assert environment["NCCL_NET"] == "ofi"
    assert "TRITON_CACHE_DIR" not in environment
    assert done.stderr.startswith("supervise: the command runs without the engine's environment: ")


def test_a_working_directory_that_is_gone_does_not_stop_a_command(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    inner = f"rmdir {gone}; exec {sys.executable} -P -m entrypoint sh -c 'echo ran'"
    done = subprocess.run(
        ["/bin/sh", "-c", inner],
        cwd=gone,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "ran\n"
    assert "working directory" in done.stderr


def test_a_token_of_a_run_does_not_disturb(run: Run):
    assert run(*PRINT, SUPERVISE_TOKEN="s3cret").stderr == ""


@pytest.mark.parametrize(("word", "nearest"), [("chekc", "check"), ("drian", "drain"), ("stauts", "status")])
def test_a_misspelt_command_names_the_nearest(run: Run, word: str, nearest: str):
    done = run(word)
    assert done.returncode == 64
    assert f"{word} is no command of supervise" in done.stderr
    assert f"Did you mean supervise {nearest}?" in done.stderr


def test_a_command_like_none_of_ours_names_all_of_ours(run: Run):
    done = run("zzzz")
    assert done.returncode == 64
    assert "Did you mean" not in done.stderr
    assert "run, check, warm, plan, verify, wait, status, drain, diagnose, profiles" in done.stderr


def test_a_file_that_cannot_be_executed_is_said_so(run: Run, tmp_path: Path):
    (tmp_path / "plain").write_text("")
    done = run(str(tmp_path / "plain"))
    assert done.returncode == 64
    assert "Permission denied" in done.stderr
