import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from engine_lives import MARK, processes_of, until

from entrypoint.engine.flag_store import FlagStore
from entrypoint.engine.flags import FlagTable
from entrypoint.findings import Severity
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.plan.plan import Plan
from entrypoint.run import orphans
from entrypoint.run.preflight import CheckOutcome, ask_engine, check, model_findings

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "flags-0.5.23.json"
TELLING = f"cat {RECORDED}"
HANGING = "sleep 1000 & sleep 1000; sleep 1000"


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str], Path]:
    """Make an interpreter that does something else."""

    def make(script: str) -> Path:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def environment(mark: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], MARK: mark}


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def checked(
    plan: Plan, store: FlagStore, environment: dict[str, str], *, replanned: list[FlagTable] | None = None
) -> CheckOutcome:
    def replan(table: FlagTable) -> Plan:
        if replanned is not None:
            replanned.append(table)
        return replace(plan, engine=replace(plan.engine, flags=table))

    return asyncio.run(check(plan, environment, store, replan))


def with_engine(plan: Plan, python: Path, version: str | None = "0.5.23", flags: FlagTable | None = None) -> Plan:
    return replace(plan, engine=replace(plan.engine, python=python, version=version, flags=flags))


def rules(outcome: CheckOutcome) -> set[str]:
    return {finding.rule for finding in outcome.findings}


# Asking the engine


def test_an_engine_tells_its_flags(python: Callable[[str], Path], environment: dict[str, str]):
    table = asyncio.run(ask_engine(python(TELLING), environment))
    assert table == FlagTable.from_json(RECORDED.read_bytes())


def test_an_interpreter_that_does_not_exist_is_told_as_such(tmp_path: Path, environment: dict[str, str]):
    with pytest.raises(SuperviseError, match="does not exist"):
        asyncio.run(ask_engine(tmp_path / "python", environment))


def test_an_interpreter_that_fails_is_told_with_its_last_words(
    python: Callable[[str], Path], environment: dict[str, str]
):
    with pytest.raises(SuperviseError, match="status 9 while importing sglang: no such thing"):
        asyncio.run(ask_engine(python("echo no such thing >&2; exit 9"), environment))


def test_an_engine_that_does_not_answer_is_killed_with_all_that_it_started(
    python: Callable[[str], Path], environment: dict[str, str]
):
    async def story() -> None:
        with pytest.raises(SuperviseError, match=r"within 0\.3 s"):
            await ask_engine(python(HANGING), environment, 0.3)
        await until(lambda: not processes_of(environment[MARK]), "everything that hung is gone")
        await until(lambda: not orphans._owned, "its end was waited for")

    asyncio.run(story())


def test_an_engine_that_is_no_longer_asked_is_killed_with_all_that_it_started(
    python: Callable[[str], Path], environment: dict[str, str]
):
    async def story() -> None:
        asking = asyncio.create_task(ask_engine(python(HANGING), environment))
        await until(lambda: len(processes_of(environment[MARK])) == 3, "the engine hangs")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: not processes_of(environment[MARK]), "everything that hung is gone")
        await until(lambda: not orphans._owned, "its end was waited for")

    asyncio.run(story())


def test_the_end_of_the_engine_that_is_asked_is_not_taken_away_by_whoever_collects_orphans(
    python: Callable[[str], Path], environment: dict[str, str]
):
    async def story() -> None:
        asking = asyncio.create_task(ask_engine(python("sleep 1000"), environment))
        await until(lambda: bool(processes_of(environment[MARK])), "the engine is asked")
        (pid,) = orphans._owned
        assert pid in processes_of(environment[MARK])
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: not orphans._owned, "its end was waited for")

    asyncio.run(story())


# The whole check


def test_an_engine_whose_flags_are_known_is_not_asked(
    planned: Callable[..., Plan], python: Callable[[str], Path], environment: dict[str, str], free_ports: Iterator[int]
):
    table = FlagTable.from_json(RECORDED.read_bytes())
    plan = with_engine(planned(engine={"port": next(free_ports)}), python("exit 9"), flags=table)
    outcome = checked(plan, FlagStore(), environment)
    assert outcome.plan is plan
    assert "engine-python" not in rules(outcome)


def test_an_engine_whose_flags_are_unknown_is_asked_and_the_plan_made_anew(
    planned: Callable[..., Plan],
    python: Callable[[str], Path],
    environment: dict[str, str],
    tmp_path: Path,
):
    table = FlagTable.from_json(RECORDED.read_bytes())
    plan = with_engine(planned(), python(TELLING), version=table.version)
    replanned: list[FlagTable] = []
    outcome = checked(plan, FlagStore((), tmp_path / "flags"), environment, replanned=replanned)
    assert replanned == [table]
    assert outcome.plan.engine.flags == table
    (note,) = outcome.notes
    assert note.startswith(f"the flags of SGLang {table.version} are stored in {tmp_path / 'flags'}")


def test_flags_of_another_version_than_the_plan_knows_are_used_and_not_stored(
    planned: Callable[..., Plan],
    python: Callable[[str], Path],
    environment: dict[str, str],
    tmp_path: Path,
):
    plan = with_engine(planned(), python(TELLING), version=None)
    outcome = checked(plan, FlagStore((), tmp_path / "flags"), environment)
    assert outcome.plan.engine.flags is not None
    assert outcome.notes == ()
    assert not (tmp_path / "flags").exists()


def test_flags_that_cannot_be_stored_are_a_note_and_no_failure(
    planned: Callable[..., Plan],
    python: Callable[[str], Path],
    environment: dict[str, str],
    tmp_path: Path,
):
    (tmp_path / "flags").write_text("a file where a directory should be")
    table = FlagTable.from_json(RECORDED.read_bytes())
    plan = with_engine(planned(), python(TELLING), version=table.version)
    outcome = checked(plan, FlagStore((), tmp_path / "flags"), environment)
    (note,) = outcome.notes
    assert note.startswith("the engine's flags could not be stored and will be asked for again")


def test_an_engine_that_cannot_be_asked_is_an_error_that_names_the_setting(
    planned: Callable[..., Plan], python: Callable[[str], Path], environment: dict[str, str]
):
    plan = with_engine(planned(), python("exit 9"))
    outcome = checked(plan, FlagStore(), environment)
    (finding,) = (finding for finding in outcome.findings if finding.rule == "engine-python")
    assert finding.severity is Severity.ERROR
    assert finding.setting == "engine.python"
    assert finding.code is ExitCode.CONFIGURATION


def test_a_finding_that_is_known_and_accepted_is_left_out(
    planned: Callable[..., Plan], python: Callable[[str], Path], environment: dict[str, str]
):
    plan = with_engine(planned(rules={"ignore": ["engine-python"]}), python("exit 9"))
    assert "engine-python" not in rules(checked(plan, FlagStore(), environment))


def test_a_port_that_is_taken_is_found_before_the_engine_is_started(
    planned: Callable[..., Plan], python: Callable[[str], Path], environment: dict[str, str], taken_port: int
):
    table = FlagTable.from_json(RECORDED.read_bytes())
    plan = with_engine(planned(engine={"port": taken_port}), python("exit 9"), flags=table)
    (finding,) = (
        finding for finding in checked(plan, FlagStore(), environment).findings if finding.setting == "engine.port"
    )
    assert str(taken_port) in finding.message
    assert finding.code is ExitCode.NODE_UNFIT


# The model


def test_a_model_that_is_not_there_is_found(planned: Callable[..., Plan], tmp_path: Path):
    plan = planned(model={"path": str(tmp_path / "nowhere")})
    (finding,) = model_findings(plan, {})
    assert finding.severity is Severity.ERROR
    assert str(tmp_path / "nowhere") in finding.message


def test_a_model_without_weights_to_read_is_not_looked_at(planned: Callable[..., Plan], tmp_path: Path):
    plan = planned(model={"path": str(tmp_path / "nowhere")}, engine={"args": {"load-format": "dummy"}})
    assert model_findings(plan, {}) == ()


def test_without_a_model_there_is_nothing_to_look_at(planned: Callable[..., Plan]):
    assert model_findings(planned(), {}) == ()


def test_a_whole_model_has_no_findings(planned: Callable[..., Plan], fake_model: Path):
    assert [found.rule for found in model_findings(planned(model={"path": str(fake_model)}), {})] == []
