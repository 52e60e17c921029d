"""Gathering: what goes in line by line comes out as evidence, whatever the pieces, and in bounded memory."""

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrypoint.cause import Cause
from entrypoint.engine.signature import Role, Signature
from entrypoint.engine.signature_book import packaged_signatures
from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.exit_status import ExitStatus
from entrypoint.settings.redaction import Masker
from entrypoint.verdict.evidence import LogEvidence
from entrypoint.verdict.gather import CHILD_DEATHS, FIRST_HITS, LogGatherer
from entrypoint.verdict.last_lines import KEPT_LINES, LastLines

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "start-0.5.23-cpu.log"
INDEX = SignatureIndex(packaged_signatures())
OOM = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.\n"
RETRACT = "[2026-10-20 10:00:00 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2\n"
DECODE = "[2026-10-20 10:00:20 TP0] Decode batch, #running-req: 20, #token: 390211\n"
ARGUMENTS = "[2026-10-20 09:59:30] server_args=ServerArgs(model_path='/m')\n"
READY = "[2026-10-20 10:12:44] The server is fired up and ready to roll!\n"
STOP = "[2026-10-20 11:00:00] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
TIMEOUT = (
    "[rank3]:[E1020 10:31:00.500 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=81, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)


def evidence(*texts: str | bytes, index: SignatureIndex = INDEX, masker: Masker | None = None) -> LogEvidence:
    gatherer = LogGatherer("server-0.log", index, masker=masker)
    for text in texts:
        gatherer.feed(text if isinstance(text, bytes) else text.encode())
    return gatherer.evidence()


def ids(found: LogEvidence) -> list[str]:
    return [hit.signature.id for hit in found.hits]


def local(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_nothing_is_known_of_an_empty_log():
    assert evidence() == LogEvidence("server-0.log")


def test_a_hit_has_its_line_its_number_its_rank_and_its_time():
    found = evidence(
        "first\n[2026-10-20 10:00:12.500 PP0 TP3] \x1b[31mScheduler watchdog timeout "
        "(self.watchdog_timeout=300, self.soft=False)\x1b[0m\n"
    )

    (hit,) = found.hits
    assert hit.signature.id == "run.watchdog"
    assert hit.line.endswith("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)")
    assert (hit.number, hit.rank_tags) == (2, "PP0 TP3")
    assert hit.unix_s == local("2026-10-20 10:00:12.500")
    assert hit.fields == {"who": "Scheduler", "seconds": "300"}


def test_time_stamps_are_the_machines_local_time(zone: str):
    found = evidence("[2026-07-01 12:00:00] " + OOM)

    offset_s = {"UTC": 0, "America/New_York": 4 * 3600}[zone]
    assert found.hits[0].unix_s == 1782907200 + offset_s
    assert found.began_unix_s == found.ended_unix_s == found.hits[0].unix_s


def test_a_line_without_a_stamp_has_the_time_of_the_last_one_before_it():
    found = evidence("[2026-10-20 10:00:12 TP0] one\n", "two\n" + OOM + "[2026-10-20 10:00:20 TP0] three\n")

    assert found.hits[0].unix_s == local("2026-10-20 10:00:12")
    assert (found.began_unix_s, found.ended_unix_s) == (local("2026-10-20 10:00:12"), local("2026-10-20 10:00:20"))


def test_a_stamp_without_a_year_takes_it_from_the_one_before():
    found = evidence("[2026-10-20 10:00:12 TP3] Init parallel begin.\n" + TIMEOUT)

    assert found.hits[0].unix_s == local("2026-10-20 10:31:00.500")
    assert found.hits[0].rank_tags == "rank3"


def test_a_stamp_without_a_year_may_lie_in_the_next_one():
    found = evidence("[2026-12-31 23:59:59 TP3] one\n" + TIMEOUT.replace("E1020", "E0101"))

    assert found.hits[0].unix_s == local("2027-01-01 10:31:00.500")


def test_without_any_stamp_there_is_no_time():
    found = evidence(OOM + TIMEOUT + "[2026-99-99 10:00:00] no time\n")

    assert [hit.unix_s for hit in found.hits] == [None, None]
    assert (found.began_unix_s, found.ended_unix_s) == (None, None)


def test_a_stamp_inside_of_a_users_text_is_no_time():
    found = evidence("[2026-10-20 10:00:12] Receive: text='[2030-01-01 00:00:00] hello'\n")

    assert found.ended_unix_s == local("2026-10-20 10:00:12")


def test_a_stamp_behind_a_bar_without_an_end_counts():
    found = evidence("Loading: 100% Completed | 1/1 [00:00<00:00, 9.2it/s][2026-10-20 10:00:12 TP1] one\n")

    assert found.ended_unix_s == local("2026-10-20 10:00:12")


def test_of_one_signature_the_first_few_lines_and_the_last_are_kept():
    found = evidence(*[RETRACT] * 5, RETRACT * 100, "[2026-10-20 10:30:00] other\n", RETRACT * 7 + "end\n")

    assert [hit.number for hit in found.hits] == [1, 2, 3, 113]
    assert found.lines == 114


def test_hits_of_several_signatures_stand_in_the_logs_order():
    found = evidence(RETRACT + OOM, OOM + RETRACT * 9 + OOM * 9)

    retract, oom = "run.retract", "mem.hip_oom"
    assert ids(found) == [retract, oom, oom, retract, retract, retract, oom, oom]
    assert [hit.number for hit in found.hits] == [1, 2, 3, 4, 5, 12, 13, 21]


def test_signs_of_health_after_a_hit_are_counted_to_the_end():
    found = evidence(DECODE + OOM + DECODE, DECODE + RETRACT, DECODE + OOM)

    assert [(hit.signature.id, hit.health_after) for hit in found.hits] == [
        ("mem.hip_oom", 3),
        ("run.retract", 1),
        ("mem.hip_oom", 0),
    ]


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        (DECODE, 1),
        (DECODE.replace("Decode", "Prefill"), 1),
        (READY, 1),
        ('[2026-10-20 10:00:00] INFO:     1.2.3.4:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n', 1),
        ('[2026-10-20 10:00:00] INFO:     1.2.3.4:5 - "POST /generate HTTP/1.1" 200 OK\n', 1),
        ('[2026-10-20 10:00:00] INFO:     1.2.3.4:5 - "POST /v1/chat/completions HTTP/1.1" 500 Error\n', 0),
        ('[2026-10-20 10:00:00] INFO:     1.2.3.4:5 - "GET /metrics HTTP/1.1" 200 OK\n', 0),
        ('[2026-10-20 10:00:00] INFO:     1.2.3.4:5 - "GET /health HTTP/1.1" 200 OK\n', 0),
        ("[2026-10-20 10:00:00 TP0] Scheduler hit an exception: Traceback\n", 0),
    ],
)
def test_only_work_is_a_sign_of_health(line: str, marks: int):
    assert evidence(OOM + line).hits[0].health_after == marks


def test_phases_stand_in_their_order_with_their_first_lines():
    found = evidence(RECORDED.read_bytes())

    assert [phase.name for phase in found.phases] == ["starting", "loading", "engine-up", "ready"]
    lines = RECORDED.read_bytes().decode().split("\n")
    for phase, text in zip(found.phases, ["server_args=", "Load weight begin", "Uvicorn", "fired up"], strict=True):
        assert text in lines[phase.number - 1]
        stamp = re.match(r"\[(.*?)\]", lines[phase.number - 1])
        assert phase.unix_s == local(stamp[1])


def test_capturing_and_a_worker_nodes_readiness_are_phases():
    found = evidence(
        "Capture target decode CUDA graph begin. avail mem=209.80 GB\n"
        "Dummy health check server started in background thread at 0.0.0.0:30000\n"
    )

    assert [phase.name for phase in found.phases] == ["capturing", "ready"]
    assert found.available_gib == 209.8


def test_the_last_memory_figure_is_kept():
    assert evidence(RECORDED.read_bytes()).available_gib == 21.76


@pytest.mark.parametrize(
    "line", [STOP, "Gracefully exiting... Remaining number of requests 3. Remaining requests remaining_rids=['a'].\n"]
)
def test_the_first_line_about_stopping_is_noted(line: str):
    assert evidence(DECODE + line + line).stop_line == 2
    assert evidence(DECODE).stop_line is None


@pytest.mark.parametrize(
    ("line", "name", "status"),
    [
        (
            "RuntimeError: Rank 2 scheduler died during initialization (exit code: -9). If exit code is -9\n",
            "scheduler_2",
            ExitStatus(None, 9),
        ),
        (
            "[2026-10-20 11:00:00] Subprocess detokenizer (pid=8123) crashed with exit code -6. Triggering SIGQUIT\n",
            "detokenizer",
            ExitStatus(None, 6),
        ),
        (
            "[2026-10-20 11:00:00] Scheduler or DataParallelController 8123 terminated with 1\n",
            "process 8123",
            ExitStatus(1, None),
        ),
    ],
)
def test_a_childs_death_is_told_once(line: str, name: str, status: ExitStatus):
    found = evidence("[2026-10-20 10:59:00] one\n" + line + line)

    (death,) = found.child_deaths
    assert (death.name, death.status, death.number) == (name, status, 2)
    assert death.line == line.rstrip("\n")
    assert death.unix_s == local("2026-10-20 11:00:00" if "11:00" in line else "2026-10-20 10:59:00")


@pytest.mark.parametrize("code", ["0", "None"])
def test_a_child_that_ended_well_or_unseen_is_no_death(code: str):
    assert evidence(f"Scheduler or DataParallelController 8123 terminated with {code}\n").child_deaths == ()


def test_only_so_many_deaths_are_kept():
    lines = [f"Subprocess scheduler_{rank} (pid={rank}) crashed with exit code -9.\n" for rank in range(99)]

    assert len(evidence(*lines).child_deaths) == CHILD_DEATHS


def test_a_users_row_without_the_fields_of_a_death_does_no_harm():
    row = Signature(
        "exit.sub_crash", re.compile("crashed"), ("crashed",), Role.CASCADE, Cause.ENGINE, "b", "r", "s", "v"
    )

    found = evidence("it crashed\n", index=SignatureIndex([row]))

    assert (ids(found), found.child_deaths) == (["exit.sub_crash"], ())
    named = replace(row, pattern=re.compile(r"crashed with (?P<code>-?\d+)"))
    assert [death.name for death in evidence("x crashed with -9\n", index=SignatureIndex([named])).child_deaths] == [
        "?"
    ]


@pytest.mark.parametrize(
    "ending", [READY, STOP, "Subprocess scheduler_0 (pid=1) crashed with exit code -9. Triggering SIGQUIT\n"]
)
def test_of_several_runs_in_one_log_the_last_one_counts(ending: str):
    first = ARGUMENTS + "Load weight begin. avail mem=1.00 GB\n" + OOM + ending

    found = evidence(first + ARGUMENTS.replace("09:59", "12:00") + RETRACT)

    assert (ids(found), found.child_deaths, found.stop_line, found.available_gib) == (["run.retract"], (), None, None)
    assert [(phase.name, phase.number) for phase in found.phases] == [("starting", 5)]
    assert found.lines == 6


def test_arguments_of_several_ranks_are_one_run():
    found = evidence(ARGUMENTS + OOM + ARGUMENTS)

    assert ids(found) == ["mem.hip_oom"]
    assert [phase.number for phase in found.phases] == [1]


def test_secrets_are_masked_in_everything_that_is_kept():
    masker = Masker(["s3cret-value"])

    found = evidence(
        "ValueError: served_model_name cannot contain a colon s3cret-value\n"
        "Subprocess s3cret-value (pid=1) crashed with exit code -9.\n"
        "ModuleNotFoundError: No module named 's3cret-value'\nKeyError: s3cret-value\n",
        masker=masker,
    )

    assert "s3cret-value" not in repr([replace(hit, signature=None) for hit in found.hits])
    assert "s3cret-value" not in repr(found.child_deaths[0].line) + repr(found.tail) + repr(found.telling)
    assert "***" in repr(found.tail)


def test_secrets_that_are_not_known_are_masked_by_what_stands_around_them():
    assert evidence("KeyError: api_key='abcdefghijkl'\n").telling == "KeyError: api_key='***'"


def test_the_telling_line_is_one_of_the_last():
    assert evidence("KeyError: 'old'\n" + DECODE * 50).telling is None
    assert evidence("KeyError: 'new'\n" + DECODE * 10).telling == "KeyError: 'new'"


def test_what_is_missing_of_the_log_is_passed_on():
    gatherer = LogGatherer("a", INDEX)

    assert gatherer.evidence(cut="its end is missing").cut == "its end is missing"


def test_an_absurd_line_is_searched_at_its_beginning_and_kept_in_part():
    huge = b"x" * (100 << 20)

    found = evidence(b"ValueError: served_model_name cannot contain a colon " + huge + b"\n" + OOM.encode())

    assert ids(found) == ["arg.served_name", "mem.hip_oom"]
    assert max(len(hit.line) for hit in found.hits) <= 1024
    assert max(map(len, found.tail)) <= 4096


def test_a_flood_of_hits_is_bounded_and_quick():
    begin = time.monotonic()
    found = evidence(RETRACT * 400_000)

    assert len(found.hits) == FIRST_HITS + 1
    assert time.monotonic() - begin < 30


def test_evidence_can_be_asked_for_while_lines_come_in():
    gatherer = LogGatherer("a", INDEX)
    feeding = threading.Thread(target=lambda: [gatherer.feed((RETRACT + DECODE).encode() * 50) for _ in range(100)])
    feeding.start()
    seen = 0
    while feeding.is_alive():
        found = gatherer.evidence()
        assert found.lines >= seen
        seen = found.lines
    feeding.join()

    assert gatherer.evidence().lines == 10_000


PIECES = (
    OOM,
    RETRACT,
    DECODE,
    ARGUMENTS,
    READY,
    STOP,
    TIMEOUT,
    "Subprocess scheduler_0 (pid=1) crashed with exit code -9. Triggering SIGQUIT\n",
    "Loading: 10%\r",
    "Loading: 20% Completed | 1/4 [00:00<00:00, 88.92it/s]\r",
    "\r\n",
    "[2026-10-20 10:00:12 TP0] Load weight begin. avail mem=1.00 GB\r\n",
    "Traceback (most recent call last):\n",
    "KeyError: 'x'\n",
    "\n",
    "1: [2026-10-20 10:15:12] words\n",
)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sets(st.integers(0, 39)))
def test_where_the_log_is_cut_does_not_change_what_is_found(pieces: list[str], borders: set[int]):
    cuts = sorted({0, len(pieces), *(border for border in borders if border < len(pieces))})

    in_parts = evidence(*("".join(pieces[start:end]) for start, end in pairwise(cuts)))

    assert in_parts == evidence("".join(pieces)) == evidence(*pieces)


@given(st.sets(st.integers(0, 200)))
def test_where_a_recorded_log_is_cut_does_not_change_what_is_found(borders: set[int]):
    lines = re.findall(rb"[^\r\n]*[\r\n]", RECORDED.read_bytes())
    cuts = sorted({0, len(lines), *(border for border in borders if border < len(lines))})

    assert evidence(*(b"".join(lines[a:b]) for a, b in pairwise(cuts))) == evidence(b"".join(lines))


@given(st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n"]), max_size=60), st.lists(st.integers(0, 60)))
def test_the_last_lines_are_what_a_terminal_shows(parts: list[bytes], borders: list[int]):
    text = b"".join(parts) + b"\n"
    ends = [match.end() for match in re.finditer(rb"[\r\n]", text)]
    cuts = [0, *sorted({ends[border % len(ends)] for border in borders} | {len(text)})]
    last = LastLines()
    for start, end in pairwise(cuts):
        last.feed(text[start:end])

    shown = [next((part for part in reversed(line.split(b"\r")) if part), b"") for line in text.split(b"\n")[:-1]]
    assert last.lines() == tuple(shown[-KEPT_LINES:])


def test_a_line_that_is_still_being_drawn_is_the_last_one():
    last = LastLines()
    last.feed(b"one\nLoading: 1%\r")
    last.feed(b"Loading: 2%\r")

    assert last.lines() == (b"one", b"Loading: 2%")
    assert last.is_drawn


def test_memory_does_not_grow_with_the_log():
    gatherer = LogGatherer("a", INDEX)
    block = (DECODE + RETRACT + OOM + TIMEOUT).encode() * 500
    gatherer.feed(block)
    before = len(repr(gatherer.evidence()))
    for _ in range(50):
        gatherer.feed(block)

    assert len(repr(gatherer.evidence())) < before * 1.1
