import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from engine_lives import MARK, Life, until

from entrypoint.engine.client import EngineClient
from entrypoint.engine.log import FactKind, LogFact
from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.run.generation import Generation
from entrypoint.settings.redaction import Masker

KEY = "sk-0123456789abcdef"
FIRED_UP = "[2026-12-01 05:02:15] The server is fired up and ready to roll!"


def fact(kind: FactKind, **fields: str) -> LogFact:
    return LogFact(kind, fields, "the line")


@asynccontextmanager
async def generation() -> AsyncIterator[Generation]:
    made = Generation(0, 0.0, EngineClient.open("http://127.0.0.1:9"))
    yield made
    await made.close()


class Listener(Life):
    """A listener of a generation's child."""

    def on_started(self, pid: int) -> None:
        self.told.append(f"started {pid}")


async def _lived(
    mark: str, log_path: Path, script: str, *, max_bytes: int = 1 << 20
) -> tuple[Generation, list[LogFact]]:
    facts: list[LogFact] = []
    listener = Listener(mark)
    async with generation() as made:
        made.start(
            ["sh", "-c", script],
            {"PATH": os.environ["PATH"], MARK: mark},
            listener=listener,
            on_facts=facts.extend,
            index=SignatureIndex(()),
            log_path=log_path,
            log_max_bytes=max_bytes,
            masker=Masker([KEY]),
        )
        await until(lambda: "gone" in listener.told, "the engine is gone")
    await asyncio.sleep(0)
    return made, facts


def test_what_the_engine_says_reaches_the_file_the_tail_and_the_loop(mark: str, tmp_path: Path):
    made, facts = asyncio.run(_lived(mark, tmp_path / "log", f"echo '{FIRED_UP}'; echo bye >&2"))
    assert (tmp_path / "log").read_text() == f"{FIRED_UP}\nbye\n"
    assert made.tail() == (FIRED_UP, "bye")
    assert [one.kind for one in facts] == [FactKind.FIRED_UP]
    assert made.log_figures() == {"path": str(tmp_path / "log"), "dropped_lines": 0, "write_error": None}


def test_a_key_that_the_engine_prints_is_masked(mark: str, tmp_path: Path):
    made, _ = asyncio.run(_lived(mark, tmp_path / "log", f"echo the key is {KEY}"))
    assert made.tail() == ("the key is ***",)
    assert KEY not in (tmp_path / "log").read_text()


def test_a_talkative_engine_does_not_wait_for_the_loop(mark: str, tmp_path: Path):
    made, _ = asyncio.run(_lived(mark, tmp_path / "log", "seq 300000", max_bytes=64 << 20))
    assert made.tail()[-1] == "300000"
    assert (tmp_path / "log").read_text().endswith("299999\n300000\n")


def test_closing_twice_is_closing_once(mark: str, tmp_path: Path):
    async def story() -> None:
        made, _ = await _lived(mark, tmp_path / "log", "echo bye")
        await made.close()

    asyncio.run(story())


def test_a_generation_that_was_not_started_has_no_processes_and_no_lines():
    async def story() -> None:
        async with generation() as made:
            assert not made.started
            assert made.tail() == ()
            assert made.log_figures() == {}
            with pytest.raises(RuntimeError, match="no process yet"):
                _ = made.child

    asyncio.run(story())


@pytest.mark.parametrize("kind", [FactKind.HTTP_UP, FactKind.FIRED_UP])
def test_a_word_about_the_port_is_a_reason_to_look_at_it(kind: FactKind):
    async def story() -> None:
        async with generation() as made:
            made.take([fact(FactKind.LOAD_BEGIN)])
            assert not made.nudge.is_set()
            made.take([fact(kind)])
            assert made.nudge.is_set()

    asyncio.run(story())


def test_a_release_has_begun_when_no_request_remains():
    async def story() -> None:
        async with generation() as made:
            made.take([fact(FactKind.SIGTERM_SEEN), fact(FactKind.DRAINING, remaining="2")])
            assert not made.release_begun.is_set()
            made.take([fact(FactKind.DRAINING, remaining="0")])
            assert made.release_begun.is_set()

    asyncio.run(story())


def test_every_fact_is_noted_also_after_the_first_that_is_progress():
    async def story() -> None:
        async with generation() as made:
            assert made.take([fact(FactKind.LOAD_BEGIN, available_gb="9"), fact(FactKind.POOL_TOKENS, tokens="7")])
            assert made.numbers.values == {
                "available_memory_gb": 9.0,
                "available_before_load_gb": 9.0,
                "pool_tokens": 7,
            }
            assert not made.take([fact(FactKind.EXCEPTION)])

    asyncio.run(story())
