import asyncio
import json
import signal
import string
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from entrypoint.run import orphans
from entrypoint.run.session import SAME_REQUEST_S, _key_file_text, _Signals
from entrypoint.settings.secrets import Secrets

InNoTime = Callable[[Coroutine[Any, Any, Any]], Any]
KEYS = st.text(string.digits + string.ascii_letters + string.punctuation, min_size=1)


class Asked:
    """A supervisor that notes what it is asked."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def ask_stop(self, source: str) -> None:
        self.requests.append(f"stop: {source}")

    def ask_force(self, source: str) -> None:
        self.requests.append(f"force: {source}")


def signals_of(asked: Asked) -> _Signals:
    return _Signals(asked)  # type: ignore[arg-type]


async def hear(numbers: Sequence[int], *, pause_s: float) -> list[str]:
    """Return what is asked when signals come with a pause between them."""
    asked = Asked()
    signals = signals_of(asked)
    for number in numbers:
        (signals.soft if number == signal.SIGUSR1 else signals.hard)(number)
        await asyncio.sleep(pause_s)
    return asked.requests


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_first_signal_asks(in_no_time: InNoTime, number: signal.Signals):
    assert in_no_time(hear([number], pause_s=0)) == [f"stop: {number.name}"]


def test_a_second_signal_forces(in_no_time: InNoTime):
    requests = in_no_time(hear([signal.SIGTERM, signal.SIGINT], pause_s=SAME_REQUEST_S + 0.1))
    assert requests == ["stop: SIGTERM", "force: a second signal, SIGINT"]


def test_a_second_signal_right_after_the_first_is_the_same_request(in_no_time: InNoTime):
    assert in_no_time(hear([signal.SIGINT, signal.SIGTERM], pause_s=SAME_REQUEST_S - 0.1)) == ["stop: SIGINT"]


def test_a_warning_asks_and_never_forces(in_no_time: InNoTime):
    requests = in_no_time(hear([signal.SIGUSR1, signal.SIGUSR1], pause_s=10))
    assert requests == ["stop: SIGUSR1", "stop: SIGUSR1"]


def test_the_first_signal_after_a_warning_asks_and_does_not_force(in_no_time: InNoTime):
    requests = in_no_time(hear([signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM], pause_s=10))
    assert requests == ["stop: SIGUSR1", "stop: SIGTERM", "force: a second signal, SIGTERM"]


def test_a_warning_after_a_signal_does_not_force(in_no_time: InNoTime):
    requests = in_no_time(hear([signal.SIGTERM, signal.SIGUSR1], pause_s=10))
    assert "force" not in " ".join(requests)


@pytest.mark.parametrize(
    ("early", "requests"),
    [
        ([], []),
        ([signal.SIGTERM], ["stop: SIGTERM"]),
        ([signal.SIGUSR1], ["stop: SIGUSR1"]),
        ([signal.SIGTERM, signal.SIGTERM], ["stop: SIGTERM"]),
    ],
)
def test_signals_that_came_before_anybody_listened_are_heard(early: list[int], requests: list[str]):
    async def story() -> None:
        asked = Asked()
        handlers: dict[int, Callable[..., object]] = {}
        loop = asyncio.get_running_loop()
        loop.add_signal_handler = lambda number, handler, *_: handlers.update({number: handler})  # type: ignore[method-assign]
        signals_of(asked).listen(early)
        assert asked.requests == requests
        assert set(handlers) == {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD}
        assert handlers[signal.SIGCHLD] is orphans.reap

    asyncio.run(story())


# The engine's keys


def secrets(api_key: str | None, admin_api_key: str | None = None) -> Secrets:
    return Secrets(
        api_key=None if api_key is None else SecretStr(api_key),
        admin_api_key=None if admin_api_key is None else SecretStr(admin_api_key),
        hf_token=None,
    )


def read_back(text: str) -> dict[str, str]:
    """Read one double-quoted scalar a line; such a scalar means the same in JSON and YAML."""
    pairs = (line.split(": ", 1) for line in text.splitlines())
    return {name: json.loads(value) for name, value in pairs}


@given(KEYS)
def test_any_key_is_read_back_as_it_is(key: str):
    text = _key_file_text(secrets(key))
    assert read_back(text) == {"api-key": key}
    assert text.count("\n") == 1


@pytest.mark.parametrize("key", ["'", '"', "\\", "#no comment", "yes", "0123", "null", "{a: b}", "\\u0041"])
def test_a_key_is_always_in_double_quotes(key: str):
    assert read_back(_key_file_text(secrets(key, key))) == {"api-key": key, "admin-api-key": key}
    assert all(line.split(": ", 1)[1][0] == '"' for line in _key_file_text(secrets(key, key)).splitlines())


def test_a_key_that_is_not_given_is_not_written():
    assert _key_file_text(secrets(None, "admin")) == 'admin-api-key: "admin"\n'
    assert _key_file_text(secrets(None)) == ""
