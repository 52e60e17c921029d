"""``supervise diagnose``: from whatever log there is to one page, and never a confident guess."""

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrypoint.cli import main
from entrypoint.tell.files import write_private_json

STAMP = "[2026-10-20 10:{minute:02}:{second:02}{tags}] "
REFUSED = "sglang serve: error: argument --dtype: invalid choice: 'fp7' (choose from 'auto', 'half')\n"
SIGQUIT = "SIGQUIT received. signum=3, frame=<x>. It usually means one child failed.\n"


def line(text: str, minute: int = 0, second: int = 0, tags: str = "") -> str:
    return STAMP.format(minute=minute, second=second, tags=tags and f" {tags}") + text + "\n"


LOADED = line("server_args={'model_path': '/m/x'}") + line("Load weight begin. avail mem=480.00 GB", 1)
READY = LOADED + line("The server is fired up and ready to roll!", 5)
FAULT = "Memory access fault by GPU node-4 (Agent handle: 0x55) on address 0x7f0000000000. Reason: Unknown.\n"
WAITED = (
    "[rank{rank}]:[E1020 10:{minute}:00] [PG ID 2 Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=81, OpType=ALLREDUCE) ran for 600012 milliseconds before timing out.\n"
)


@pytest.fixture
def diagnosed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Write logs by name, diagnose them, and return the report as data."""

    def diagnose(*words: str, **logs: str | bytes) -> dict[str, Any]:
        names = []
        for name, text in logs.items():
            path = tmp_path / f"{name.replace('_', '-')}.log"
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
            names.append(str(path))
        assert main(["diagnose", *names, *words, "--format", "json"]) == 0
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    return diagnose


def test_a_refused_flag_is_said_with_its_remedy(diagnosed: Any):
    report = diagnosed(server_0=REFUSED)
    assert (report["cause"], report["confidence"], report["code"]) == ("configuration", "certain", 78)
    assert report["signature"] == "arg.invalid_choice"
    assert "--dtype" in report["summary"]


def test_the_page_for_people_begins_with_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "server-0.log"
    path.write_text(LOADED + FAULT)
    assert main(["diagnose", str(path)]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# ")
    assert "gpu.fault" in page
    assert "| `loading`" in page


@pytest.mark.parametrize("pack", [gzip.compress, lambda text: gzip.compress(text)[:-20]])
def test_a_compressed_log_is_read_also_when_it_is_cut_off(diagnosed: Any, pack: Callable[[bytes], bytes]):
    noise = line("Decode batch, #running-req: 1").encode() * 5000
    report = diagnosed(server_0=pack(LOADED.encode() + noise))
    assert report["phases"][-1]["name"] == "loading"
    assert report["confidence"] == "unknown"
    assert any("cannot be read to its end" in note for note in report["notes"]) is (pack is not gzip.compress)


def test_what_cannot_be_unpacked_at_all_is_said(diagnosed: Any):
    (note, *_) = diagnosed(server_0=b"\x1f\x8b")["notes"]
    assert "cannot be read to its end" in note


def test_colours_and_labels_hide_nothing(diagnosed: Any):
    assert diagnosed(server_0=f"\x1b[31m0: {REFUSED.rstrip()}\x1b[0m\n")["signature"] == "arg.invalid_choice"


def test_of_several_ranks_the_one_that_failed_first_is_the_root(diagnosed: Any):
    report = diagnosed(
        server_0=READY + WAITED.format(rank=0, minute=20),
        server_1=READY + WAITED.format(rank=1, minute=20),
        server_2=READY + line("Prefill batch, #new-seq: 1", 9, 58) + FAULT,
    )
    assert report["signature"] == "gpu.fault"
    assert report["root"].startswith("rank 2")
    assert [row.partition(":")[0] for row in report["cascades"]] == ["rank 0", "rank 1"]
    assert report["log_path"].endswith("server-2.log")


def test_several_ranks_in_one_file_are_told_apart(diagnosed: Any):
    texts = {
        0: READY + WAITED.format(rank=0, minute=20),
        1: READY + line("Prefill batch, #new-seq: 1", 9, 58) + FAULT,
    }
    report = diagnosed(job=labelled(texts))
    assert report["signature"] == "gpu.fault"
    assert report["root"].startswith("rank 1")


def test_the_standard_input_will_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(REFUSED.encode()))))
    assert main(["diagnose", "-", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["signature"] == "arg.invalid_choice"


@pytest.mark.parametrize(
    "carried",
    ["sglang-1  | {}", "Oct 20 10:00:00 nid001 sglang[12]: {}", "2026-10-20T10:00:00.12Z stderr F {}", "{}"],
)
def test_what_passed_a_log_on_hides_nothing(diagnosed: Any, carried: str):
    text = "".join(carried.format(row) + "\n" for row in (READY + FAULT).splitlines())
    assert diagnosed(server_0=text)["signature"] == "gpu.fault"


def labelled(texts: dict[int, str]) -> str:
    return "".join(f" {rank}: {row}\n" for rank, text in texts.items() for row in text.split("\n")[:-1])


def test_the_ranks_of_several_labelled_files_are_all_kept(diagnosed: Any):
    report = diagnosed(job_1=labelled({0: READY, 1: READY + FAULT}), job_2=labelled({0: READY, 1: READY}))
    assert report["signature"] == "gpu.fault"
    assert report["log_path"].endswith("job-1.log (task 1)")


def test_what_a_batch_script_says_before_its_step_hides_no_labels(diagnosed: Any):
    report = diagnosed(job="+ module load x\n" * 40 + labelled({0: READY, 1: READY + FAULT}))
    assert report["root"].startswith("rank 1")


def test_a_rank_is_what_the_engine_says_of_itself(diagnosed: Any):
    of_rank = "server_args={{'model_path': '/m/x', 'nnodes': 2, 'node_rank': {}}}"
    report = diagnosed(slurm_812=line(of_rank.format(1)) + FAULT, slurm_813=line(of_rank.format(0)))
    assert report["root"].startswith("rank 1")


def test_engines_that_say_the_same_rank_are_told_apart_by_their_files(diagnosed: Any):
    alone = line("server_args={'model_path': '/m/x', 'nnodes': 1, 'node_rank': 0}")
    report = diagnosed(server_0=alone, server_1=alone + FAULT)
    assert report["root"].startswith("rank 1")


def test_the_next_command_looks_only_into_what_can_be_looked_into(diagnosed: Any):
    assert diagnosed(server_0=READY + FAULT)["next_command"].startswith("less +1 ")
    assert diagnosed(server_0=gzip.compress((READY + FAULT).encode()))["next_command"] == ""
    assert diagnosed(server_0=labelled({0: READY, 1: FAULT}))["next_command"] == ""


# What it does not know


def test_a_failure_that_is_not_known_is_unknown_and_its_most_telling_line_is_shown(diagnosed: Any):
    traceback = "Scheduler hit an exception: Traceback (most recent call last):\nZeroDivisionError: division by zero\n"
    report = diagnosed(server_0=LOADED + line(traceback.rstrip(), 2) + line(SIGQUIT.rstrip(), 2))
    assert (report["cause"], report["confidence"]) == ("unknown", "unknown")
    assert "ZeroDivisionError: division by zero" in report["summary"]


def test_a_log_without_a_failure_is_not_given_one(diagnosed: Any):
    report = diagnosed(server_0=READY + line("Decode batch, #running-req: 1", 6))
    assert report["confidence"] == "unknown"
    assert report["summary"].startswith("The log shows no failure.")


def test_what_a_user_wrote_is_no_failure(diagnosed: Any):
    prompt = line("Receive: obj=GenerateReqInput(text='why: torch.OutOfMemoryError: HIP out of memory?')", 6)
    assert diagnosed(server_0=READY + prompt)["confidence"] == "unknown"


@pytest.mark.parametrize("text", ["", "Dear diary,\nnothing happened.\n", b"\x7fELF\0\0\0"])
def test_what_is_no_log_of_an_engine_is_said_to_be_none(diagnosed: Any, text: str | bytes):
    report = diagnosed(server_0=text)
    assert report["confidence"] == "unknown"
    assert "does not look like a log of SGLang: none of its" in report["summary"]


@pytest.mark.parametrize("text", [LOADED, line("Decode batch, #running-req: 1", tags="TP0") * 3])
def test_a_log_of_an_engine_is_not_said_to_be_none(diagnosed: Any, text: str):
    assert diagnosed(server_0=text)["notes"] == []


# A run's directory

EXITED = datetime(2026, 10, 20, 8, 9, tzinfo=UTC)


def events(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def state(name: str, minute: int) -> dict[str, Any]:
    return {"time": f"2026-10-20T08:{minute:02}:00.000+00:00", "event": "state", "state": name}


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """The directory of a run whose supervisor was killed together with its engine: there is no report."""
    directory = tmp_path / "812.0.0"
    directory.mkdir()
    write_private_json(directory / "plan.json", {})
    (directory / "server-0.log").write_text(READY)
    exited = {"time": EXITED.isoformat(), "event": "engine-exited", "status": "signal SIGKILL"}
    (directory / "events-0.jsonl").write_text(
        events(state("loading", 1), state("ready", 5), exited) + '{"time": "2026-10'
    )
    return directory


def samples(directory: Path, headroom_bytes: int, kills: int) -> None:
    whole = {
        "at_unix_s": EXITED.timestamp() - 1,
        "node": {"total_bytes": 512 << 30},
        "available_bytes": headroom_bytes,
        "headroom_bytes": headroom_bytes,
        "floor_bytes": 8 << 30,
        "seconds_to_floor": None,
        "oom_kills": {"node": kills, "cgroup": 0},
        "processes": [{"pid": 7, "name": "sglang::scheduler", "bytes": 400 << 30}],
    }
    (directory / "memory-0.jsonl").write_text(json.dumps(whole) + "\n" + '{"cut')


def diagnose_run(directory: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["diagnose", str(directory), "--format", "json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_a_run_that_left_no_report_is_explained_from_its_records(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
):
    samples(run_directory, headroom_bytes=2 << 30, kills=1)
    report = diagnose_run(run_directory, capsys)
    assert (report["cause"], report["confidence"], report["phase"]) == ("memory", "certain", "ready")
    assert [phase["name"] for phase in report["phases"]] == ["loading", "ready"]
    assert report["memory"]["owners"][0]["name"] == "sglang::scheduler"


def test_memory_that_ran_out_before_the_end_is_seen_though_it_is_free_afterwards(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
):
    samples(run_directory, headroom_bytes=2 << 30, kills=0)
    afterwards = {"at_unix_s": EXITED.timestamp() + 2, "headroom_bytes": 400 << 30, "oom_kills": {}}
    path = run_directory / "memory-0.jsonl"
    path.write_text(path.read_text() + "\n" + json.dumps(afterwards) + "\n")
    report = diagnose_run(run_directory, capsys)
    assert (report["cause"], report["confidence"], report["memory"]["at_floor"]) == ("memory", "probable", True)
    assert "At the last look 2.0 GiB of 512.0 GiB were left." in report["reasons"]


def test_records_that_are_damaged_are_left_out(run_directory: Path, capsys: pytest.CaptureFixture[str]):
    rows = ({"event": "state"}, {"event": "state", "state": "ready", "time": "never"}, {"event": "engine-exited"})
    (run_directory / "events-0.jsonl").write_text(events(*rows))
    (run_directory / "memory-0.jsonl").write_text('{"at_unix_s": 1, "headroom_bytes": "much", "node": 7}\n')
    write_private_json(run_directory / "report-0.json", said(code="none", memory={"points": 3}))
    report = diagnose_run(run_directory, capsys)
    assert (report["confidence"], report["memory"]) == ("unknown", None)
    assert [phase["name"] for phase in report["phases"]] == ["starting", "loading", "ready"]


def test_how_an_earlier_engine_ended_says_nothing_of_the_one_that_runs(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
):
    path = run_directory / "events-0.jsonl"
    path.write_text(path.read_text() + "\n" + events(state("starting", 10), state("ready", 12)))
    assert "SIGKILL" not in diagnose_run(run_directory, capsys)["summary"]


def test_the_signal_with_which_the_run_itself_took_its_engine_down_is_no_sign(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
):
    exited = {"time": EXITED.isoformat(), "event": "engine-exited", "status": "signal SIGKILL"}
    rows = (state("loading", 1), state("aborting", 8), exited, state("failed", 9))
    (run_directory / "events-0.jsonl").write_text(events(*rows))
    report = diagnose_run(run_directory, capsys)
    assert report["phase"] == "loading"
    assert "SIGKILL" not in report["summary"]


def test_a_stop_that_the_run_did_not_ask_for_is_not_called_wanted(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
):
    (run_directory / "server-0.log").write_text(READY + line("SIGTERM received. signum=15 frame=<x>. Draining", 8))
    exited = {"time": EXITED.isoformat(), "event": "engine-exited", "status": "exit code 0"}
    for last, cause in (("ready", "unknown"), ("draining", "stopped")):
        (run_directory / "events-0.jsonl").write_text(events(state("starting", 1), state(last, 5), exited))
        assert diagnose_run(run_directory, capsys)["cause"] == cause


def test_all_that_a_run_directory_holds_is_as_good_as_its_name(run_directory: Path, capsys: pytest.CaptureFixture[str]):
    (run_directory / "server-0.log").write_text(READY + FAULT)
    (run_directory / "out").mkdir()
    assert main(["diagnose", *map(str, sorted(run_directory.iterdir())), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["signature"], report["notes"]) == ("gpu.fault", [])
    assert [phase["name"] for phase in report["phases"]] == ["loading", "ready"]


def test_a_kill_without_want_of_memory_is_not_called_so(run_directory: Path, capsys: pytest.CaptureFixture[str]):
    samples(run_directory, headroom_bytes=300 << 30, kills=0)
    report = diagnose_run(run_directory, capsys)
    assert report["confidence"] == "unknown"
    assert "somebody sent this signal" in report["summary"]


def said(**more: Any) -> dict[str, Any]:
    verdict = {
        "code": 76,
        "summary": "The self-check failed.",
        "remedy": "Set the parser.",
        "evidence": [],
        "phase": "proving",
        "cause": "self-check",
        "confidence": "certain",
        "retry": "changed",
        "signature": "",
        "root": "",
        "cascades": [],
        "line_number": None,
        "reasons": [],
    }
    return verdict | more


def test_what_only_the_run_itself_could_see_is_taken_from_its_report(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
):
    write_private_json(run_directory / "report-0.json", said())
    report = diagnose_run(run_directory, capsys)
    assert (report["cause"], report["summary"]) == ("self-check", "The self-check failed.")
    assert "The run itself came to this verdict." in report["notes"]


def test_where_the_log_tells_more_than_the_run_said_both_are_shown(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
):
    (run_directory / "server-0.log").write_text(READY + FAULT)
    write_private_json(run_directory / "report-0.json", said(cause="unknown", summary="It ended.", code=70))
    report = diagnose_run(run_directory, capsys)
    assert report["signature"] == "gpu.fault"
    assert "The run itself said: It ended." in report["notes"]


def test_a_directory_of_logs_is_as_good_as_the_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "node0.out").write_text(READY)
    (tmp_path / "node1.out").write_text(LOADED + FAULT)
    assert diagnose_run(tmp_path, capsys)["root"].startswith("rank 1")


def test_what_is_no_log_in_a_directory_of_logs_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "server.log").write_text(READY + FAULT)
    (tmp_path / "config.yaml").write_text("tp: 4\n")
    report = diagnose_run(tmp_path, capsys)
    assert report["root"] == "rank 0"
    assert report["notes"] == ["Left out as no log of SGLang: config.yaml."]


# Files that a user adds, and what is written


def test_rows_of_ones_own_count(diagnosed: Any, tmp_path: Path):
    rows = tmp_path / "own.toml"
    rows.write_text(
        '[[signature]]\nid = "own.thing"\npattern = "^the frobnicator broke"\nliterals = ["frobnicator"]\n'
        'role = "root"\ncause = "device"\nbecause = "The frobnicator broke."\nremedy = "Replace it."\n'
    )
    log = LOADED + line("the frobnicator broke", 2)
    assert diagnosed(server_0=log)["signature"] == ""
    report = diagnosed("--signatures", str(rows), server_0=log)
    assert (report["signature"], report["code"], report["remedy"]) == ("own.thing", 69, "Replace it.")


def test_all_forms_of_the_report_are_written_where_they_are_wanted(diagnosed: Any, tmp_path: Path):
    diagnosed("--output", str(tmp_path / "out"), server_0=REFUSED)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("report-0.html", "report-0.json", "report-0.md"),
    ]


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["/nowhere/server-0.log"], 64, "cannot be read"),
        (["."], 64, "holds no files"),
        ([""], 64, "One of the names is empty"),
        ([], 64, "the following arguments are required"),
        (["server-0.log", "--signatures", "/nowhere.toml"], 78, "/nowhere.toml"),
    ],
)
def test_what_cannot_be_read_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    words: list[str],
    code: int,
    complaint: str,
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) if not words else _nothing():
        assert main(["diagnose", *words]) == code
    assert complaint in capsys.readouterr().err


class _nothing:  # noqa: N801  # reads like contextlib's
    def __enter__(self) -> None:
        """Expect nothing."""

    def __exit__(self, *_: object) -> None:
        """Expect nothing."""


def test_ctrl_c_ends_a_long_reading_without_a_traceback(tmp_path: Path):
    (tmp_path / "server-0.log").write_text(READY)
    interrupted = "import signal; from entrypoint.verdict import logfile; logfile.LogFile.blocks = lambda self: signal."
    program = f"{interrupted}raise_signal(signal.SIGINT)\nimport sys; from entrypoint.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "diagnose", str(tmp_path / "server-0.log")]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# A large log


def test_a_large_log_is_read_in_little_memory(tmp_path: Path):
    path = tmp_path / "server-0.log"
    block = line("Decode batch, #running-req: 20, #token: 390211, token usage: 0.97", 6).encode() * 10_000
    with path.open("wb") as file:
        file.write(READY.encode())
        while file.tell() < 128 << 20:
            file.write(block)
        file.write(FAULT.encode())
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, "diagnose", str(path), "--format", "json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["signature"] == "gpu.fault"
    assert int(done.stderr.split()[-1]) < 100 << 10


_MEASURED = """
import sys
from pathlib import Path
from entrypoint.cli import main
code = main(sys.argv[1:])
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), file=sys.stderr)
sys.exit(code)
"""
