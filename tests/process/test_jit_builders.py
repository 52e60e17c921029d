"""Builders in processes of their own, with a stand-in for aiter: what is built, what fails, and what hangs or dies."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from entrypoint.warm.jit.crew import CrewPlan, Progress, build
from entrypoint.warm.jit.result import Outcome, StepResult
from entrypoint.warm.jit.step import Step

pytestmark = pytest.mark.process

STANDIN = Path(__file__).resolve().parent.parent / "standin_aiter"
QUANT, NORM, SAMPLE = (Step.of_module(f"module_{name}") for name in ("quant", "rmsnorm_quant", "sample"))


def built(
    tmp_path: Path,
    steps: Sequence[Step],
    *,
    workers: int = 1,
    timeout_s: float = 30,
    path: Path = STANDIN,
    python: Path = Path(sys.executable),
    **switches: str,
) -> dict[str, StepResult]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(path),
        "AITER_JIT_DIR": str(tmp_path / "jit"),
        "AITER_ROOT_DIR": str(tmp_path / "root"),
        "HOME": str(tmp_path),
        "STANDIN_AITER_SECONDS": "0.01",
        **{f"STANDIN_AITER_{name}": value for name, value in switches.items()},
    }
    (tmp_path / "jit").mkdir(exist_ok=True)
    told: list[Progress] = []
    results = asyncio.run(build(steps, CrewPlan(python, environment, workers, 1, timeout_s), told.append))
    assert [progress.last for progress in told if progress.last is not None] == list(results)
    assert told[-1].done == told[-1].total == len(steps)
    return {result.step.name: result for result in results}


def test_a_module_is_built_by_its_name_without_a_gpu(tmp_path: Path):
    found = built(tmp_path, [QUANT], NO_GPU="1")["module_quant"]
    assert (found.outcome, found.modules) == (Outcome.BUILT, ("module_quant",))
    assert (tmp_path / "jit" / "module_quant.so").exists()


def test_what_is_there_is_not_built_again(tmp_path: Path):
    built(tmp_path, [QUANT])
    before = (tmp_path / "jit" / "module_quant.so").stat().st_mtime_ns
    assert built(tmp_path, [QUANT])["module_quant"].outcome is Outcome.FOUND
    assert (tmp_path / "jit" / "module_quant.so").stat().st_mtime_ns == before


def test_a_build_that_fails_is_told_with_its_compilers_words_and_the_others_go_on(tmp_path: Path):
    found = built(tmp_path, [QUANT, NORM], FAIL="module_quant")
    assert found["module_quant"].outcome is Outcome.FAILED
    assert any("error" in line for line in found["module_quant"].output)
    assert found["module_rmsnorm_quant"].outcome is Outcome.BUILT


def test_a_build_that_claims_success_and_leaves_nothing_is_not_believed(tmp_path: Path):
    found = built(tmp_path, [QUANT], LIE="module_quant")["module_quant"]
    assert found.outcome is Outcome.FAILED
    assert "library is not there" in found.reason


def test_a_build_that_hangs_costs_its_step_alone(tmp_path: Path):
    found = built(tmp_path, [QUANT, NORM], HANG="module_quant", timeout_s=5)
    assert found["module_quant"].outcome is Outcome.TIMED_OUT
    assert "warm.timeout_s, 5 s" in found["module_quant"].reason
    assert found["module_rmsnorm_quant"].outcome is Outcome.BUILT


def test_a_builder_that_dies_costs_its_step_alone_and_its_signal_is_named(tmp_path: Path):
    found = built(tmp_path, [QUANT, NORM], CRASH="module_quant=11")
    assert found["module_quant"].outcome is Outcome.CRASHED
    assert "SIGSEGV" in found["module_quant"].reason
    assert found["module_rmsnorm_quant"].outcome is Outcome.BUILT


def test_several_build_at_once(tmp_path: Path):
    found = built(tmp_path, [QUANT, NORM, SAMPLE], workers=3, SECONDS="0.2")
    assert {result.outcome for result in found.values()} == {Outcome.BUILT}


def test_a_module_that_this_release_does_not_have_is_absent_and_no_failure(tmp_path: Path):
    found = built(tmp_path, [Step.of_module("module_of_next_year")])["module_of_next_year"]
    assert (found.outcome, found.reason) == (Outcome.ABSENT, "this aiter has no module_of_next_year")


def test_without_aiter_everything_of_it_is_absent(tmp_path: Path):
    found = built(tmp_path, [QUANT, Step("norms", call="aiter_not_here:norms")], path=tmp_path)
    assert {result.outcome for result in found.values()} == {Outcome.ABSENT}


def test_a_call_of_the_users_own_is_made_and_what_it_raises_is_told(tmp_path: Path):
    (tmp_path / "mine.py").write_text("def good(): pass\n\ndef bad(): raise RuntimeError('no luck')\n")
    found = built(tmp_path, [Step("good", call="mine:good"), Step("bad", call="mine:bad")], path=tmp_path)
    assert found["good"].outcome is Outcome.FOUND
    assert (found["bad"].outcome, found["bad"].reason) == (Outcome.FAILED, "RuntimeError: no luck")


def test_an_interpreter_that_cannot_be_started_fails_each_step_with_the_reason(tmp_path: Path):
    found = built(tmp_path, [QUANT, NORM], python=tmp_path / "none")
    assert {result.outcome for result in found.values()} == {Outcome.CRASHED}
    assert "No such file" in found["module_quant"].reason


def test_what_a_step_prints_without_end_is_kept_to_its_last_lines(tmp_path: Path):
    text = "import os\n\ndef loud():\n    os.write(1, b'line\\n' * 2_000_000)\n    raise ValueError('last')\n"
    (tmp_path / "mine.py").write_text(text)
    found = built(tmp_path, [Step("loud", call="mine:loud")], path=tmp_path)["loud"]
    assert found.outcome is Outcome.FAILED
    assert 0 < len(found.output) < 100


def test_a_crew_that_is_called_off_leaves_no_builder(tmp_path: Path):
    pids: list[int] = []

    async def call_off() -> None:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(STANDIN), "AITER_JIT_DIR": str(tmp_path / "jit")}
        environment["STANDIN_AITER_HANG"] = "module_quant"
        begun = asyncio.Event()

        def own(pid: int) -> None:
            pids.append(pid)
            begun.set()

        plan = CrewPlan(Path(sys.executable), environment, 1, 1, 60, own=own)
        building = asyncio.create_task(build([QUANT], plan, lambda _: None))
        await begun.wait()
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building

    (tmp_path / "jit").mkdir()
    asyncio.run(call_off())
    (pid,) = pids
    assert not Path(f"/proc/{pid}").exists()
