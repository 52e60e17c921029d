import asyncio

from bench.load_generator import Connection, Target


class Wire(asyncio.WriteTransport):
    """Takes requests; answers come when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.requests.append(data)


class Clock(asyncio.SelectorEventLoop):
    """A loop that is asked for the time and nothing else."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s


def server_with_one_connection() -> tuple[Target, Connection, Wire, Clock]:
    target, wire, clock = Target(1), Wire(), Clock()
    clock.close()
    connection = Connection(target, clock)
    connection.connection_made(wire)
    return target, connection, wire, clock


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_a_request_that_waits_for_a_stalled_server_counts_from_when_it_was_meant_to_be_sent():
    target, connection, wire, clock = server_with_one_connection()
    target.request(0.0)
    target.request(1.0)
    assert len(wire.requests) == 1
    clock.now_s = 5.0
    connection.data_received(OK)
    assert len(wire.requests) == 2
    clock.now_s = 6.0
    connection.data_received(OK)
    assert target.latencies_s == [5.0, 5.0]
    assert not target.outstanding


def test_an_answer_counts_when_its_last_byte_is_there():
    target, connection, _, clock = server_with_one_connection()
    target.request(0.0)
    connection.data_received(OK[:-1])
    assert target.outstanding == 1
    clock.now_s = 3.0
    connection.data_received(OK[-1:])
    assert target.latencies_s == [3.0]


def test_not_ready_is_an_answer_and_not_found_is_a_failure():
    target, connection, _, _ = server_with_one_connection()
    target.request(0.0)
    connection.data_received(OK.replace(b"200 OK", b"503 Service Unavailable"))
    assert not target.failures
    target.request(0.0)
    connection.data_received(OK.replace(b"200 OK", b"404 Not Found"))
    assert "404" in target.failures[0]


def test_a_closed_connection_is_a_failure_and_takes_no_more_requests():
    target, connection, wire, _ = server_with_one_connection()
    connection.connection_lost(None)
    target.request(0.0)
    assert target.failures
    assert not wire.requests
    assert target.data()["unanswered"] == 1
