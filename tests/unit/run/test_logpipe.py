import errno
import os
import re
import stat
import threading
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrypoint.engine.log import FactKind, LogFact
from entrypoint.run.logfile import FileSink, LogWriter, Sink
from entrypoint.run.logpipe import LogPipe, collapse_bars
from entrypoint.settings.redaction import Masker

KEY = "sk-0123456789abcdef"
RECORDED = Path(__file__).parents[2] / "data" / "engine" / "start-0.5.23-cpu.log"
PATIENCE_S = 20.0
BAR_AT_ITS_END = b"Multi-thread loading shards: 100% Completed | 1/1 [00:00<00:00, 88.92it/s]\n"
READY = b"[2026-10-20 10:00:12] The server is fired up and ready to roll!\n"


class Memory:
    """A sink that keeps what it is given, and can be made to hang or to fail."""

    def __init__(self) -> None:
        self.data = b""
        self.error: int | None = None
        self.room_bytes: int | None = None
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.entered = threading.Event()
        self.closed = False

    def write(self, data: bytes) -> int:
        self.entered.set()
        self.open_gate.wait(PATIENCE_S)
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        taken = data if self.room_bytes is None else data[: self.room_bytes]
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.room_bytes is not None:
            self.room_bytes -= len(taken)
        self.data += taken
        return len(taken)

    def close(self) -> None:
        self.closed = True


class Engine:
    """The writing end of a log pipe, with everything that the pipe tells."""

    def __init__(self, path: Path, *, sink: Sink | None = None, queue_bytes: int = 1 << 20) -> None:
        read_fd, self.write_fd = os.pipe()
        self.facts: list[LogFact] = []
        self.told = threading.Event()
        self.pipe = LogPipe(
            read_fd, path, masker=Masker([KEY]), on_facts=self._take, queue_bytes=queue_bytes, sink=sink
        )
        self.pipe.start()

    def _take(self, facts: list[LogFact]) -> None:
        self.facts += facts
        self.told.set()

    def say(self, data: bytes) -> None:
        os.write(self.write_fd, data)

    def end(self) -> bool:
        os.close(self.write_fd)
        return self.pipe.close(PATIENCE_S)


@contextmanager
def writing(sink: Memory, *, queue_bytes: int = 1 << 20):
    writer = LogWriter(sink, queue_bytes=queue_bytes)
    writer.start()
    yield writer
    sink.open_gate.set()
    assert writer.close(PATIENCE_S)


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread; the test's own timeout is the bound."""
    waiting = threading.Event()
    while not condition():
        waiting.wait(0.001)


def test_output_reaches_the_file_the_tail_and_the_facts(tmp_path: Path):
    path = tmp_path / "server-0.log"
    engine = Engine(path)
    engine.say(f"using {KEY}\n".encode() + READY + b"a last line without an end")

    assert engine.end()

    assert path.read_bytes() == b"using ***\n" + READY + b"a last line without an end\n"
    assert engine.pipe.tail()[0] == "using ***"
    assert engine.pipe.tail()[-1] == "a last line without an end"
    assert [fact.kind for fact in engine.facts] == [FactKind.FIRED_UP]
    assert engine.pipe.dropped_lines == 0
    assert engine.pipe.last_write_error is None
    assert engine.pipe.callback_error is None


def test_the_recorded_start_can_be_read_line_by_line_from_the_file(tmp_path: Path):
    path = tmp_path / "server-0.log"
    engine = Engine(path)
    engine.say(RECORDED.read_bytes())
    assert engine.end()

    written = path.read_bytes()
    assert b"\r" not in written
    assert b"sk-recorded-key" not in written
    assert BAR_AT_ITS_END in written
    assert engine.facts[0].kind is FactKind.SERVER_ARGUMENTS
    assert engine.facts[-1].kind is FactKind.DRAINING


def test_an_unfinished_line_is_looked_at_when_nothing_more_comes(tmp_path: Path):
    engine = Engine(tmp_path / "server-0.log")
    engine.say(b"\rMulti-thread loading shards:  50% Completed | 2/4 [00:01<00:01,  1.90it/s]")

    assert engine.told.wait(PATIENCE_S)
    assert engine.end()

    assert [fact.fields["done"] for fact in engine.facts] == ["2"]


def test_a_secret_in_two_pieces_is_masked_however_long_the_second_takes(tmp_path: Path):
    path = tmp_path / "server-0.log"
    engine = Engine(path)
    engine.say(READY + f"Gracefully exiting... Remaining number of requests 1. {KEY[:9]}".encode())
    until(lambda: len(engine.facts) == 2)
    engine.say(f"{KEY[9:]}\n".encode())
    assert engine.end()

    assert path.read_bytes().endswith(b"requests 1. ***\n")
    assert all(KEY[:9] not in fact.line for fact in engine.facts)


def test_the_tail_keeps_the_last_lines_and_not_too_much_of_each(tmp_path: Path):
    engine = Engine(tmp_path / "server-0.log")
    engine.say(b"".join(b"line %d\n" % number for number in range(500)))
    engine.say(b"x" * 10_000 + b"\n")
    assert engine.end()

    assert engine.pipe.tail()[:2] == ("line 301", "line 302")
    assert engine.pipe.tail()[-1] == "x" * 4096
    assert len(engine.pipe.tail()) == 200


def test_a_callback_that_fails_does_not_stop_the_reading(tmp_path: Path):
    path = tmp_path / "server-0.log"
    read_fd, write_fd = os.pipe()

    def fail(_facts: list[LogFact]) -> None:
        raise RuntimeError("the loop has closed")

    pipe = LogPipe(read_fd, path, masker=Masker(), on_facts=fail)
    pipe.start()
    os.write(write_fd, READY + b"after\n")
    os.close(write_fd)
    assert pipe.close(PATIENCE_S)

    assert path.read_bytes() == READY + b"after\n"
    assert str(pipe.callback_error) == "the loop has closed"


def test_the_engine_is_read_while_the_disk_hangs(tmp_path: Path):
    sink = Memory()
    sink.open_gate.clear()
    engine = Engine(tmp_path / "server-0.log", sink=sink, queue_bytes=64 << 10)
    engine.say(b"first\n")
    assert sink.entered.wait(PATIENCE_S)

    for _ in range(100):
        engine.say(b"x" * 9_999 + b"\n")
    engine.say(READY)
    os.close(engine.write_fd)
    assert engine.pipe.join(PATIENCE_S)

    assert engine.facts[-1].kind is FactKind.FIRED_UP
    assert engine.pipe.tail()[-1] == READY.decode().strip()
    assert engine.pipe.dropped_lines > 0
    assert not engine.pipe.close(0.05), "a writer that hangs does not hang close"
    sink.open_gate.set()
    assert engine.pipe.close(PATIENCE_S)
    lost = engine.pipe.dropped_lines
    marks = re.findall(rb"\[supervise\] (\d+) lines were not written: the disk was too slow\n", sink.data)
    assert sum(int(mark) for mark in marks) == lost, "each gap has its own mark"
    assert sink.data.count(b"\n") == 102 - lost + len(marks)


def test_what_was_printed_before_is_known_when_the_reader_has_caught_up(tmp_path: Path):
    for number in range(50):  # each would be a coin toss without the order that is asked for
        engine = Engine(tmp_path / f"{number}.log")
        caught_up, known = threading.Event(), []
        engine.say(b"x" * 30_000 + b"\n" + READY)
        engine.pipe.when_caught_up(lambda: (known.append(len(engine.facts)), caught_up.set()))  # noqa: B023
        assert caught_up.wait(PATIENCE_S)
        assert known == [1]
        assert engine.end()


def test_a_last_line_without_an_end_is_known_as_well(tmp_path: Path):
    engine = Engine(tmp_path / "server.log")
    caught_up, known = threading.Event(), []
    engine.say(READY.rstrip())
    engine.pipe.when_caught_up(lambda: (known.append(len(engine.facts)), caught_up.set()))
    assert caught_up.wait(PATIENCE_S)
    assert known == [1]
    assert engine.end()


def test_a_flood_does_not_keep_those_who_wait(tmp_path: Path):
    engine = Engine(tmp_path / "server.log")
    over, caught_up = threading.Event(), threading.Event()

    def flood() -> None:
        while not over.is_set():
            engine.say(b"y" * 4095 + b"\n")

    flooding = threading.Thread(target=flood)
    flooding.start()
    engine.pipe.when_caught_up(caught_up.set)
    assert caught_up.wait(PATIENCE_S)
    over.set()
    flooding.join()
    engine.end()


def test_those_who_wait_are_called_in_their_order_also_after_the_end(tmp_path: Path):
    engine = Engine(tmp_path / "server.log")
    order: list[int] = []
    for number in range(200):
        if number == 100:
            os.close(engine.write_fd)
        engine.pipe.when_caught_up(lambda number=number: order.append(number))
    assert engine.pipe.close(PATIENCE_S)
    engine.pipe.when_caught_up(lambda: order.append(200))
    assert order == list(range(201))


def test_close_does_not_wait_for_a_stray_process_that_holds_the_pipe(tmp_path: Path):
    path = tmp_path / "server-0.log"
    engine = Engine(path)
    engine.say(b"line\nbegun")
    until(lambda: engine.pipe.tail() == ("line",))

    assert not engine.pipe.close(0.05)
    assert engine.pipe.join(0)

    assert path.read_bytes() == b"line\nbegun\n"
    with pytest.raises(BrokenPipeError):
        engine.say(b"more\n")
    os.close(engine.write_fd)


def test_a_pipe_can_be_closed_twice(tmp_path: Path):
    engine = Engine(tmp_path / "server-0.log")

    assert engine.end()
    assert engine.pipe.close(PATIENCE_S)


def test_what_does_not_fit_into_the_queue_is_marked_where_it_is_missing():
    sink = Memory()
    sink.open_gate.clear()
    with writing(sink, queue_bytes=20) as writer:
        writer.offer(b"1234567890\n")
        assert sink.entered.wait(PATIENCE_S)
        writer.offer(b"a\nb\nc\n1234567890\n")
        writer.offer(b"d\n")
        assert writer.dropped_lines == 4

    assert sink.data == b"1234567890\n[supervise] 4 lines were not written: the disk was too slow\nd\n"


def test_what_fits_into_the_queue_is_written_without_a_mark():
    sink = Memory()
    sink.open_gate.clear()
    with writing(sink, queue_bytes=20) as writer:
        writer.offer(b"1234567890\n")
        writer.offer(b"a\nb\n")

    assert sink.data == b"1234567890\na\nb\n"
    assert writer.dropped_lines == 0
    assert sink.closed


def test_a_loss_is_marked_although_nothing_comes_after_it():
    sink = Memory()
    sink.open_gate.clear()
    with writing(sink, queue_bytes=20) as writer:
        writer.offer(b"1234567890\n")
        assert sink.entered.wait(PATIENCE_S)
        writer.offer(b"a\n" * 10)

    assert sink.data == b"1234567890\n[supervise] 10 lines were not written: the disk was too slow\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.ESTALE])
def test_lines_that_cannot_be_written_are_counted_and_marked_when_writing_works_again(code: int):
    sink = Memory()
    with writing(sink) as writer:
        writer.offer(b"before\n")
        until(lambda: sink.data == b"before\n")
        sink.error = code
        writer.offer(b"a\nb\n")
        writer.offer(b"c\n")
        until(lambda: writer.dropped_lines == 3)
        assert writer.last_error == os.strerror(code)
        sink.error = None
        writer.offer(b"after\n")

    mark = f"[supervise] 3 lines were not written: {os.strerror(code)}\n".encode()
    assert sink.data == b"before\n" + mark + b"after\n"
    assert writer.dropped_lines == 3


def test_a_mark_does_not_continue_a_line_that_was_written_in_part():
    sink = Memory()
    sink.room_bytes = 9
    with writing(sink) as writer:
        writer.offer(b"first\nsecond\nthird\n")
        until(lambda: writer.dropped_lines == 2)
        sink.room_bytes = None
        writer.offer(b"fourth\n")

    mark = b"[supervise] 2 lines were not written: No space left on device\n"
    assert sink.data == b"first\nsec\n" + mark + b"fourth\n"


def test_a_disk_that_never_recovers_loses_lines_only():
    sink = Memory()
    sink.error = errno.EIO
    with writing(sink) as writer:
        writer.offer(b"a\n")
        writer.offer(b"b\n")

    assert sink.data == b""
    assert writer.dropped_lines == 2
    assert sink.closed


def test_the_log_file_is_private_and_appended_to(tmp_path: Path):
    path = tmp_path / "server-0.log"
    for line in (b"one\n", b"two\n"):
        sink = FileSink(path, max_bytes=1000)
        sink.write(line)
        sink.close()

    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_symbolic_link_in_the_log_files_place_is_refused(tmp_path: Path):
    target = tmp_path / "target"
    (tmp_path / "server-0.log").symlink_to(target)

    with pytest.raises(OSError, match="symbolic links"):
        FileSink(tmp_path / "server-0.log", max_bytes=1000).write(b"line\n")

    assert not target.exists()


def test_a_directory_that_appears_later_is_written_to_then(tmp_path: Path):
    path = tmp_path / "late" / "server-0.log"
    sink = FileSink(path, max_bytes=1000)
    with pytest.raises(FileNotFoundError):
        sink.write(b"lost\n")
    path.parent.mkdir()

    sink.write(b"kept\n")
    sink.close()

    assert path.read_bytes() == b"kept\n"


def test_a_full_file_is_set_aside_and_begun_anew(tmp_path: Path):
    path = tmp_path / "server-0.log"
    sink = FileSink(path, max_bytes=10)
    for line in (b"1234\n", b"5678\n", b"abcd\n", b"efgh\n", b"last\n"):
        sink.write(line)
    sink.close()

    assert path.read_bytes() == b"last\n"
    assert (tmp_path / "server-0.log.1").read_bytes() == b"abcd\nefgh\n"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["server-0.log", "server-0.log.1"]


def test_a_file_that_another_start_left_counts_against_the_size(tmp_path: Path):
    path = tmp_path / "server-0.log"
    path.write_bytes(b"12345678\n")
    sink = FileSink(path, max_bytes=10)
    sink.write(b"new\n")
    sink.close()

    assert path.read_bytes() == b"new\n"
    assert (tmp_path / "server-0.log.1").read_bytes() == b"12345678\n"


def test_a_block_larger_than_the_limit_is_kept_whole(tmp_path: Path):
    path = tmp_path / "server-0.log"
    sink = FileSink(path, max_bytes=4)
    sink.write(b"12345678\n")
    sink.close()

    assert path.read_bytes() == b"12345678\n"
    assert not (tmp_path / "server-0.log.1").exists()


BAR = b"Loading: %3d%% Completed | 1/1 [00:00<00:00, 88.92it/s]"


@pytest.mark.parametrize(
    ("lines", "collapsed"),
    [
        (b"one\n\ntwo\n", b"one\n\ntwo\n"),
        (b"one\r\ntwo\r\n", b"one\ntwo\n"),
        (b"\r" + BAR % 1 + b"\r" + BAR % 50 + b"\r" + BAR % 100 + b"\nnext\n", BAR % 100 + b"\nnext\n"),
        (b"\r" + BAR % 1 + b"\r" + BAR % 50 + b"\r", BAR % 50 + b"\n"),
        (BAR % 1 + b"\rOther" + BAR % 2 + b"\r", BAR % 1 + b"\nOther" + BAR % 2 + b"\n"),
        (b"a text\r" + BAR % 1 + b"\r", b"a text\n" + BAR % 1 + b"\n"),
        (
            BAR % 1 + b"[2026-10-20 10:00:12 TP1] hi\r" + BAR % 2 + b"\n",
            BAR % 1 + b"[2026-10-20 10:00:12 TP1] hi\n" + BAR % 2 + b"\n",
        ),
        (b"\r\r", b""),
    ],
)
def test_a_bar_that_is_redrawn_takes_one_line_and_nothing_else_is_lost(lines: bytes, collapsed: bytes):
    assert collapse_bars(lines) == collapsed


@settings(max_examples=60, deadline=None)
@given(cuts=st.sets(st.integers(0, 12_000), max_size=20))
def test_where_the_stream_is_cut_changes_neither_the_file_nor_the_facts(
    tmp_path_factory: pytest.TempPathFactory, cuts: set[int]
):
    data = RECORDED.read_bytes()[-10_000:] + f"{KEY}\n{READY.decode()}".encode()
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    directory = tmp_path_factory.mktemp("cut")
    whole, cut = Engine(directory / "whole.log"), Engine(directory / "cut.log")
    whole.say(data)
    for start, end in pairwise(borders):
        cut.say(data[start:end])
    assert whole.end()
    assert cut.end()

    assert without_bars(directory / "cut.log") == without_bars(directory / "whole.log")
    assert BAR_AT_ITS_END in (directory / "cut.log").read_bytes()
    assert KEY.encode() not in (directory / "cut.log").read_bytes()
    assert without_progress(cut.facts) == without_progress(whole.facts)
    assert [fact for fact in cut.facts if fact.kind is FactKind.LOAD_PROGRESS][-1].fields["percent"] == "100"


def without_bars(path: Path) -> list[bytes]:
    """Leave out the states of bars: how many of them are seen depends on when they arrive."""
    return [line for line in path.read_bytes().splitlines() if b"% Completed" not in line]


def without_progress(facts: list[LogFact]) -> list[LogFact]:
    return [fact for fact in facts if fact.kind is not FactKind.LOAD_PROGRESS]


@given(st.lists(st.sampled_from([b"\r", b"\n", b"text", BAR % 7, BAR % 8, b"\xff"])))
def test_collapsing_keeps_every_text_and_ends_every_line(parts: list[bytes]):
    data = b"".join(parts) + b"\n"

    collapsed = collapse_bars(data)

    assert b"\r" not in collapsed
    assert collapsed.endswith(b"\n") or not collapsed
    assert collapsed.count(b"text") == data.count(b"text")
    assert collapse_bars(collapsed) == collapsed


def test_an_endless_text_before_a_carriage_return_is_no_bar_and_costs_little():
    text = b"9% " * 300_000 + b"[" * 1000

    assert collapse_bars(text + b"\r" + text + b"\n") == text + b"\n" + text + b"\n"
