import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from entrypoint.findings import Finding, Severity
from entrypoint.node import ports
from entrypoint.outcome import ExitCode


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Listen on a port of loopback that the system chose."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def check(host: str, port: int) -> Finding | None:
    return ports.port_finding(host, port, "the engine", "engine.port")


def refusal(host: str, port: int, setting: str = "engine.port") -> Finding:
    finding = check(host, port)
    assert finding is not None
    assert (finding.severity, finding.code, finding.setting) == (Severity.ERROR, ExitCode.NODE_UNFIT, setting)
    return finding


def refuse_to_bind(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def bind(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", bind)


def test_a_free_port_has_no_finding(listener: socket.socket):
    port = port_of(listener)
    listener.close()
    assert check("127.0.0.1", port) is None


def test_the_check_itself_leaves_the_port_free(listener: socket.socket):
    port = port_of(listener)
    listener.close()
    assert [check("127.0.0.1", port), check("127.0.0.1", port)] == [None, None]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_taken_port_names_its_holder_and_the_setting(listener: socket.socket, host: str):
    finding = refusal(host, port_of(listener))
    assert finding.rule == "port-taken"
    assert f"process {os.getpid()}" in finding.message
    assert "engine.port" in finding.remedy


def test_connections_that_a_server_left_behind_do_not_take_the_port(listener: socket.socket):
    port = port_of(listener)
    with socket.create_connection(("127.0.0.1", port)) as client:
        served, _ = listener.accept()
        served.close()  # the side that closes first keeps the port in TIME_WAIT
        listener.close()
        assert client.recv(1) == b""
    assert check("127.0.0.1", port) is None


LISTENING = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def test_who_listens_on_a_port_is_found_among_its_processes(listener: socket.socket):
    with subprocess.Popen([sys.executable, "-c", LISTENING], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert ports.listens([os.getpid(), process.pid], port) is True
        assert ports.listens([process.pid], port_of(listener)) is False
        assert ports.listens([os.getpid()], port) is False
        process.communicate()


def test_a_process_that_is_gone_listens_on_nothing(listener: socket.socket):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert ports.listens([process.pid], port_of(listener)) is False


def test_what_may_not_be_looked_into_may_be_the_one_who_listens(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: psutil.Process, kind: str) -> None:
        raise psutil.AccessDenied(msg=kind)

    monkeypatch.setattr(psutil.Process, "net_connections", refuse)
    assert ports.listens([os.getpid()], 1) is None


def test_a_port_taken_on_one_address_is_free_on_another(listener: socket.socket):
    assert check("127.0.0.2", port_of(listener)) is None


def test_the_holders_command_ends_before_its_options():
    program = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    )
    command = [sys.executable, "-c", program, "--api-key", "s3cret"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        message = refusal("127.0.0.1", int(holder.stdout.readline())).message
        holder.communicate("\n")
    assert f"process {holder.pid} ({sys.executable} -c" in message
    assert "s3cret" not in message


@pytest.mark.parametrize("error", [psutil.AccessDenied(1), PermissionError(13, "denied")])
def test_a_holder_that_may_not_be_seen_is_called_that(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def denied(**_: object) -> None:
        raise error

    monkeypatch.setattr(psutil, "net_connections", denied)
    assert "a process that this user may not see" in refusal("127.0.0.1", port_of(listener)).message


def test_a_holder_of_another_user_is_seen_without_its_process(listener: socket.socket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(psutil, "net_connections", lambda **_: [])
    assert "a process that this user may not see" in refusal("127.0.0.1", port_of(listener)).message


def test_a_holder_that_ends_meanwhile_is_no_reason_to_fail(listener: socket.socket, monkeypatch: pytest.MonkeyPatch):
    def gone(pid: int) -> None:
        raise psutil.NoSuchProcess(pid)

    monkeypatch.setattr(psutil, "Process", gone)
    assert "(already gone)" in refusal("127.0.0.1", port_of(listener)).message


def test_a_privileged_port_names_the_user(monkeypatch: pytest.MonkeyPatch):
    refuse_to_bind(monkeypatch, errno.EACCES)
    finding = refusal("127.0.0.1", 80)
    assert finding.rule == "port-unusable"
    assert f"user {os.getuid()}" in finding.message
    assert "1024" in finding.remedy


@pytest.mark.parametrize("host", ["no-such-host.invalid", "", "x" * 70, "300.1.1.1"])
def test_a_host_that_cannot_be_resolved_is_named(host: str):
    finding = refusal(host, 8000, "engine.host")
    assert finding.rule == "port-unusable"
    assert "cannot be resolved" in finding.message
    assert repr(host) in finding.message


def test_an_address_of_another_machine_is_named():
    finding = refusal("192.0.2.1", 8000, "engine.host")
    assert finding.rule == "port-unusable"
    assert "no address of this node" in finding.message


def test_a_failure_of_another_kind_is_told_in_the_systems_words(monkeypatch: pytest.MonkeyPatch):
    refuse_to_bind(monkeypatch, errno.ENOBUFS)
    assert os.strerror(errno.ENOBUFS) in refusal("127.0.0.1", 8000).message


def test_a_family_that_the_node_lacks_is_told(monkeypatch: pytest.MonkeyPatch):
    def no_family(*_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(socket, "socket", no_family)
    assert refusal("::1", 8000).rule == "port-unusable"


@pytest.mark.parametrize("port", [0, -1, 65536, 99999])
def test_a_number_that_is_no_port_is_refused(port: int):
    finding = refusal("127.0.0.1", port)
    assert finding.rule == "port-unusable"
    assert str(port) in finding.message
