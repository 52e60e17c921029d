"""A clock that passes only when everything waits, engines of a few words, and a plan of a run."""

import asyncio
import os
import selectors
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import engine_lives
import pytest
from engine_lives import MARK, During, Life, kill_all

from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.node.facts import NodeFacts
from entrypoint.plan.plan import EngineFacts, Plan, make_plan
from entrypoint.run.surroundings import Surroundings
from entrypoint.settings.layers import ResolvedSettings
from entrypoint.settings.redaction import Masker
from entrypoint.settings.schema import Settings
from entrypoint.settings.secrets import Secrets
from entrypoint.tell.board import Board
from entrypoint.verdict.evidence import MemoryEvidence

T = TypeVar("T")


# Time


class _PatientSelector(selectors.DefaultSelector):
    """Waits by moving the clock of its loop on."""

    passed_s = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everything waits, and nothing will ever happen")
            self.passed_s += timeout
        return ready


class _PatientLoop(asyncio.SelectorEventLoop):
    """An event loop in which an hour takes no time."""

    def __init__(self) -> None:
        self._patience = _PatientSelector()
        super().__init__(self._patience)

    def time(self) -> float:
        return self._patience.passed_s


@pytest.fixture
def in_no_time() -> Callable[[Coroutine[Any, Any, T]], T]:
    """Run a coroutine on a clock that passes only while everything waits, and then at once."""

    def run(work: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=_PatientLoop) as runner:
            return runner.run(work)

    return run


# Processes


@pytest.fixture
def mark() -> Iterator[str]:
    """A value for the environment of an engine by which its processes are found, and killed in the end."""
    value = uuid.uuid4().hex
    yield value
    kill_all(value)


@pytest.fixture
def live(mark: str) -> Callable[..., Life]:
    """Return a function that starts a command behind a warden, does something meanwhile, and waits for its end."""

    def start(
        *argv: str, during: During | None = None, environment: Mapping[str, str] | None = None, marked: bool = True
    ) -> Life:
        given = {"PATH": os.environ["PATH"]} if environment is None else environment
        return asyncio.run(engine_lives.live(argv, {**given, MARK: mark} if marked else given, mark, during))

    return start


# A run


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., Plan]:
    """Make a plan from tables of settings, on a machine that stays the same."""

    def plan(**tables: Mapping[str, Any]) -> Plan:
        resolved = ResolvedSettings(Settings.model_validate(tables), {}, (), ())
        node = NodeFacts(
            {"PATH": os.environ["PATH"]}, home=tmp_path / "home", cwd=tmp_path, host_name="nid1", step=None
        )
        engine = EngineFacts(Path("/opt/venv/bin/python"), "0.5.23", None)
        return make_plan(resolved, node, engine, Secrets(None, None, None), run_name="7.0.0")

    return plan


class Around:
    """What a run talks to, as notes."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.announced: list[str] = []
        self.followed: list[int] = []
        self.memory_evidence: MemoryEvidence | None = None
        self.known_headroom_bytes: int | None = None
        """What is left of memory."""

    def tell(self, event: str, **details: Any) -> None:
        self.told.append(("tell", event, details))

    def warn(self, event: str, **details: Any) -> None:
        self.told.append(("warn", event, details))

    def error(self, event: str, **details: Any) -> None:
        self.told.append(("error", event, details))

    def announce(self) -> None:
        self.announced.append("announce")

    def withdraw(self) -> None:
        self.announced.append("withdraw")

    def follow(self, pid: int) -> None:
        self.followed.append(pid)

    async def evidence(self, ended_unix_s: float) -> MemoryEvidence | None:
        assert ended_unix_s > 0
        return self.memory_evidence

    async def headroom_bytes(self) -> int | None:
        return self.known_headroom_bytes

    def events(self) -> list[str]:
        return [event for _, event, _ in self.told]

    def surroundings(self, **others: Any) -> Surroundings:
        notes: Any = self
        given = {
            "secrets": Secrets(None, None, None),
            "board": Board(),
            "events": notes,
            "masker": Masker([]),
            "store": notes,
            "replan": notes,
            "announcer": notes,
            "signatures": SignatureIndex(()),
            "memory": notes,
            **others,
        }
        return Surroundings(**given)


@pytest.fixture
def around() -> Around:
    return Around()
