"""The engine behind its warden, with real processes."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_lives import Life, until

from entrypoint.exit_status import ExitStatus
from entrypoint.run.child import OOM_SCORE_ADJ, EngineChild

Live = Callable[..., Life]

FAMILY = """
setsid sleep 1000 & echo $!
(setsid sleep 1000 & echo $!)
(sleep 1000 & echo $!)
sh -c 'trap "" TERM HUP INT; echo $$; sleep 1000; sleep 1000' &
"""
"""Helpers of every kind: in a session of their own, orphaned, both, and deaf to signals."""
CRACKED = 'trap "" TERM; echo ready; while :; do sleep 1000; done'
HANDLER = """
import signal, sys, time
print("loading", flush=True)
sys.stdin.read()
time.sleep(float(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("serving", flush=True)
while True:
    time.sleep(1000)
"""
RUNAWAY = """
import os, time
print("running", flush=True)
for _ in range(300):
    if os.fork():
        break
    os.setsid()
    time.sleep(0.001)
time.sleep(1000)
"""


def status_of(text: str) -> dict[str, str]:
    """Return the lines of a /proc/PID/status by name."""
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def signals_in(mask: str) -> set[int]:
    bits = int(mask, 16)
    return {number for number in range(1, 65) if bits >> (number - 1) & 1}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# How it ends


@pytest.mark.parametrize("code", [0, 1, 2, 42, 126, 127, 128, 137, 255])
def test_an_exit_code_is_reported_as_it_is(live: Live, code: int):
    life = live("sh", "-c", f"exit {code}")
    assert life.told == ["started", "exited", "gone"]
    assert life.status == ExitStatus(code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGALRM, signal.SIGPIPE])
def test_a_deadly_signal_is_reported_as_it_is(live: Live, number: signal.Signals):
    life = live("sh", "-c", f"kill -{number.value} $$")
    assert life.status == ExitStatus(None, number)
    assert str(life.status) == f"signal {number.name}"


@pytest.mark.parametrize(
    ("wait_status", "words"), [(0, "exit code 0"), (3 << 8, "exit code 3"), (9, "signal SIGKILL"), (44, "signal 44")]
)
def test_a_status_of_the_kernel_is_told_in_words(wait_status: int, words: str):
    assert str(ExitStatus.from_wait_status(wait_status)) == words


def test_a_command_that_does_not_exist_is_told_as_such(live: Live):
    life = live("/nonexistent/python", "-m", "sglang.launch_server")
    assert life.told == ["started", "failed", "exited", "gone"]
    assert isinstance(life.error, FileNotFoundError)


def test_a_command_that_may_not_be_executed_is_told_as_such(live: Live, tmp_path: Path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\n")
    life = live(str(script))
    assert isinstance(life.error, PermissionError)


def test_a_command_that_is_found_and_fails_is_not_told_as_one_that_cannot_be_executed(live: Live):
    life = live("sh", "-c", "exit 127")
    assert life.error is None


def test_a_command_is_looked_for_in_the_path_of_its_own_environment(live: Live, tmp_path: Path):
    (tmp_path / "engine-of-test").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "engine-of-test").chmod(0o755)
    assert live("engine-of-test", environment={"PATH": str(tmp_path)}).text == "found\n"


def test_a_command_line_that_is_too_long_is_an_error_and_leaves_nothing_open():
    async def story() -> None:
        before = open_files()
        read_end, write_end = os.pipe()
        with pytest.raises(OSError, match="Argument list too long"):
            EngineChild(["true", "x" * (1 << 22)], {}, write_end, listener=None)  # type: ignore[arg-type]
        os.close(read_end)
        assert open_files() == before

    asyncio.run(story())


def test_a_life_leaves_nothing_open(live: Live):
    live("true")
    before = open_files()
    live("true")
    live("/nonexistent/python")
    assert open_files() == before


# What it is given


def test_the_environment_is_exactly_as_given(live: Live):
    given = {"PATH": os.environ["PATH"], "EMPTY": "", "WORDS": "one two=three", "LINES": "one\ntwo", "ÄÖ": "ü€"}
    life = live(sys.executable, "-S", "-c", PRINT_ENVIRONMENT, environment=given, marked=False)
    expected = {name.encode(): value.encode() for name, value in given.items()}
    assert life.text.strip() == repr(sorted(expected.items()))


PRINT_ENVIRONMENT = """
entries = [entry.partition(b"=") for entry in open("/proc/self/environ", "rb").read().split(b"\\0") if entry]
print(sorted((name, value) for name, _, value in entries))
"""


def test_only_the_standard_streams_are_open(live: Live):
    code = "import os; print([fd for fd in range(256) if os.path.lexists(f'/proc/self/fd/{fd}')])"
    assert live(sys.executable, "-S", "-c", code).text == "[0, 1, 2]\n"


def test_its_input_is_empty_and_its_outputs_are_one_pipe(live: Live):
    links = live("sh", "-c", "for fd in 0 1 2; do readlink /proc/$$/fd/$fd; done").text.split()
    assert links[0] == "/dev/null"
    assert links[1].startswith("pipe:")
    assert links[1] == links[2]


def test_it_has_a_process_group_and_a_session_apart_from_the_supervisor(live: Live):
    life = live("cat", "/proc/self/stat")
    pid, _, _, _, group, session, *_ = life.text.split()
    assert group == pid
    assert int(session) == life.child.warden_pid
    assert int(session) != os.getsid(0)


def test_the_out_of_memory_killer_takes_it_first(live: Live):
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(live("cat", "/proc/self/oom_score_adj").text) == max(own, OOM_SCORE_ADJ)


def test_it_writes_no_core_file(live: Live):
    assert live("sh", "-c", "ulimit -Hc; ulimit -Sc").text == "0\n0\n"


def test_the_signals_of_a_job_scheduler_are_ignored_and_no_others(live: Live):
    status = status_of(live("cat", "/proc/self/status").text)
    deaf = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
    inherited = signals_in(status_of(Path("/proc/self/status").read_text())["SigIgn"]) - {
        signal.SIGPIPE,
        signal.SIGXFSZ,
    }
    assert signals_in(status["SigIgn"]) == deaf | inherited
    assert signals_in(status["SigBlk"]) == set()


def test_the_output_is_whole_however_much_it_is(live: Live):
    life = live(sys.executable, "-S", "-c", "import sys\nfor _ in range(400): sys.stdout.write('x' * 65536)")
    assert len(life.output) == 400 * 65536
    assert life.status == ExitStatus(0, None)


# Nothing is left


def test_helpers_end_with_the_main_process_and_its_end_is_told_first(live: Live):
    life = live("sh", "-c", f"{FAMILY}\nexit 5")
    assert life.told == ["started", "exited", "gone"]
    assert life.status == ExitStatus(5, None)
    assert life.processes() == set()


def test_everything_ends_when_it_is_killed_whatever_it_ignores_and_wherever_it_went(live: Live):
    async def kill(life: Life) -> None:
        await life.says("ready")
        await until(lambda: len(life.processes()) >= 6, "the whole family is there")
        life.child.kill()

    life = live("sh", "-c", f"{FAMILY}\n{CRACKED}", during=kill)
    assert life.status == ExitStatus(None, signal.SIGKILL)
    assert life.processes() == set()


def test_fifty_children_end_at_once(live: Live):
    async def kill(life: Life) -> None:
        await life.says("ready")
        life.child.kill()

    life = live("sh", "-c", f"for _ in $(seq 50); do sleep 1000 & done; {CRACKED}", during=kill)
    assert life.processes() == set()


def test_a_chain_that_goes_on_forking_into_new_sessions_is_caught(live: Live):
    async def kill(life: Life) -> None:
        await life.says("running")
        life.child.kill()

    life = live(sys.executable, "-S", "-c", RUNAWAY, during=kill)
    assert life.processes() == set()


def test_killing_twice_and_killing_what_is_gone_are_nothing(live: Live):
    async def kill(life: Life) -> None:
        await life.says("ready")
        life.child.kill()
        life.child.kill()

    life = live("sh", "-c", CRACKED, during=kill)
    assert life.child.gone
    life.child.kill()
    life.child.terminate()
    assert life.told == ["started", "exited", "gone"]


def test_a_frozen_engine_can_be_killed(live: Live):
    async def kill(life: Life) -> None:
        await life.says("ready")
        life.child.freeze()
        life.child.kill()

    assert live("sh", "-c", CRACKED, during=kill).status == ExitStatus(None, signal.SIGKILL)


# Asked politely


def test_an_engine_without_a_handler_is_known_and_one_with_it_ends_as_it_likes(live: Live, tmp_path: Path):
    code = HANDLER.replace("sys.stdin.read()", f"open({str(tmp_path / 'go')!r}).read()")
    os.mkfifo(tmp_path / "go")

    async def ask(life: Life) -> None:
        await life.says("loading")
        assert not life.child.handles_sigterm()
        (tmp_path / "go").write_text("go")
        await life.says("serving")
        assert life.child.handles_sigterm()
        life.child.terminate()

    life = live(sys.executable, "-S", "-c", code, "0", during=ask)
    assert life.status == ExitStatus(7, None)
    assert not life.child.handles_sigterm()


def test_an_engine_without_a_handler_does_not_hear_the_question(live: Live):
    async def ask(life: Life) -> None:
        await life.says("ready")
        life.child.terminate()
        life.child.freeze()  # comes after it on the same socket: once it stands still, the question has been put
        await life.is_in("T")
        life.child.kill()

    assert live("sh", "-c", "echo ready; exec sleep 1000", during=ask).status == ExitStatus(None, signal.SIGKILL)


def test_a_frozen_engine_stands_still_and_a_thawed_one_goes_on(live: Live):
    async def freeze(life: Life) -> None:
        await life.says("ready")
        life.child.freeze()
        await life.is_in("T")
        life.child.thaw()
        await life.is_in("S", "R")
        life.child.kill()

    assert live("sh", "-c", CRACKED, during=freeze).told == ["started", "exited", "gone"]


def test_a_question_to_a_frozen_engine_waits_until_it_thaws(live: Live):
    async def ask(life: Life) -> None:
        await life.says("serving")
        life.child.freeze()
        await life.is_in("T")
        life.child.terminate()
        life.child.thaw()

    code = HANDLER.replace("sys.stdin.read()", "")
    assert live(sys.executable, "-S", "-c", code, "0", during=ask).status == ExitStatus(7, None)
