import socket
from types import SimpleNamespace
from typing import Any

import pytest

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.run.session import _bind_health


def plan_with_health_at(port: int) -> Any:
    """Return what the binding looks at of a plan."""
    return SimpleNamespace(settings=SimpleNamespace(health=SimpleNamespace(host="127.0.0.1", port=port)))


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_no_part_of_an_answer_waits_for_the_acknowledgement_of_the_part_before(free_port: int):
    with (
        _bind_health(plan_with_health_at(free_port)) as listener,
        socket.create_connection(("127.0.0.1", free_port), timeout=5),
    ):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_a_port_that_is_taken_is_refused_with_its_number(free_port: int):
    with socket.create_server(("127.0.0.1", free_port)), pytest.raises(SuperviseError, match=str(free_port)) as raised:
        _bind_health(plan_with_health_at(free_port))
    assert raised.value.code is ExitCode.NODE_UNFIT
