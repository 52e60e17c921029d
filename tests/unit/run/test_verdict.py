from collections.abc import Sequence

import pytest

from entrypoint.exit_status import ExitStatus
from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode
from entrypoint.prove.transcript import CheckResult, Failure, FailureKind
from entrypoint.run.endings import (
    Disproved,
    Ending,
    EngineDied,
    Faulted,
    Refused,
    SpawnFailed,
    Stalled,
    StopAsked,
)
from entrypoint.run.states import State
from entrypoint.run.verdict import EVIDENCE_LINES, Verdict, judge, telling_line

TRACEBACK = (
    "[2026-12-01 05:02:15 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 3000, in run',
    "    scheduler = Scheduler(server_args)",
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.",
    "",
    "[2026-12-01 05:02:16] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
)
REFUSAL = (
    "usage: launch_server.py [-h] --model-path MODEL_PATH",
    "launch_server.py: error: unrecognized arguments: --atention-backend",
)


def verdict(ending: Ending, tail: Sequence[str] = ()) -> Verdict:
    return judge(ending, tail, "logs/7.0.0/server-0.log")


def died(code: int | None = None, signal: int | None = None, phase: State = State.LOADING) -> EngineDied:
    return EngineDied(phase, ExitStatus(code, signal), generation=0, lived_s=12.34)


def finding(rule: str, message: str, code: ExitCode = ExitCode.CONFIGURATION) -> Finding:
    return Finding(rule, Severity.ERROR, message, f"Mend {rule}.", None, code)


# One ending after the other


def test_a_stop_that_was_asked_for_is_no_failure_and_says_who_asked_and_when():
    judged = verdict(StopAsked("SIGTERM", State.LOADING))
    assert judged == Verdict(ExitCode.STOPPED, "Stopped as asked by SIGTERM, while loading.", "", (), "loading")


def test_a_refused_plan_ends_with_the_code_and_the_remedy_of_its_first_error():
    first = finding("port-taken", "Port 30000 is taken.", ExitCode.NODE_UNFIT)
    judged = verdict(Refused((first, finding("model-missing", "There is no model."))))
    assert judged.code is ExitCode.NODE_UNFIT
    assert judged.summary == "Port 30000 is taken. (1 more)"
    assert judged.remedy == "Mend port-taken."
    assert judged.evidence == ("port-taken: Port 30000 is taken.", "model-missing: There is no model.")


def test_one_error_alone_is_not_counted():
    assert verdict(Refused((finding("model-missing", "There is no model."),))).summary == "There is no model."


def test_a_stalled_engine_may_do_better_elsewhere_and_the_setting_is_named():
    stalled = Stalled(State.LOADING, 4200.4, 600.2, "deadlines.load_s", "3 of 9 shards loaded")
    judged = verdict(stalled, ("a line",))
    assert judged.code is ExitCode.RETRY_ELSEWHERE
    assert judged.summary == (
        "The engine stalled while loading: 4200 s in this phase, nothing new for 600 s; "
        "the last sign was 3 of 9 shards loaded."
    )
    assert "raise deadlines.load_s" in judged.remedy
    assert "logs/7.0.0/server-0.log" in judged.remedy
    assert judged.evidence == ("a line",)


def test_a_stall_without_any_sign_does_not_make_one_up():
    assert "last sign" not in verdict(Stalled(State.STARTING, 600, 600, "deadlines.start_s", None)).summary


def test_an_engine_that_moved_but_was_not_ready_in_time_is_not_called_stalled():
    judged = verdict(Stalled(State.LOADING, 9000, 3, "deadlines.ready_s", "8 of 9 shards loaded"))
    assert judged.summary == (
        "The engine was not ready in time: it was still loading, for 9000 s; the last sign was 8 of 9 shards loaded."
    )
    assert "raise deadlines.ready_s" in judged.remedy


def test_a_preflight_that_hangs_does_not_blame_the_engine_or_its_log():
    judged = verdict(Stalled(State.CHECKING, 120, 120, "deadlines.check_s", None))
    assert judged.code is ExitCode.RETRY_ELSEWHERE
    assert judged.summary == "Gave up after 120 s of checking."
    assert "server-0.log" not in judged.remedy
    assert "raise deadlines.check_s" in judged.remedy


def test_a_command_that_cannot_be_executed_is_a_matter_of_configuration():
    judged = verdict(SpawnFailed("No such file or directory"))
    assert judged.code is ExitCode.CONFIGURATION
    assert judged.summary == "The engine's command cannot be executed: No such file or directory."
    assert "engine.python" in judged.remedy


def test_a_failed_self_check_tells_its_first_failure_and_shows_them_all():
    failures = (
        Failure(FailureKind.CALL_AS_TEXT, "The call is text.", "Set the parser.", "<tool_call>"),
        Failure(FailureKind.NO_THOUGHT, "There is no thought.", "Set the other parser.", "Hello"),
    )
    judged = verdict(Disproved(CheckResult(failures, (), 2.0)))
    assert judged.code is ExitCode.SELF_CHECK_FAILED
    assert judged.summary == "The self-check failed. The call is text."
    assert judged.remedy == "Set the parser."
    assert judged.evidence == (
        "call-as-text: The call is text. What came instead: <tool_call>",
        "no-thought: There is no thought. What came instead: Hello",
    )


def test_a_fault_of_the_supervisor_is_never_blamed_on_the_engine():
    judged = verdict(Faulted(("Traceback (most recent call last):", "ValueError: boom")), TRACEBACK)
    assert judged.summary == "The supervisor itself failed: ValueError: boom"
    assert judged.evidence[-1] == "ValueError: boom"


# How an engine died


def test_an_engine_that_died_tells_when_how_and_the_line_that_says_why():
    judged = verdict(died(code=1), TRACEBACK)
    assert judged.code is ExitCode.ENGINE_FAILED
    assert judged.summary == (
        "The engine ended by itself while loading, after 12.3 s, with exit code 1. "
        "Its log says: torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."
    )
    assert judged.evidence == TRACEBACK


@pytest.mark.parametrize("phase", [State.READY, State.DEGRADED])
def test_a_death_while_serving_says_so(phase: State):
    assert "ended by itself while serving" in verdict(died(code=1, phase=phase)).summary


def test_a_signal_is_named_and_not_explained():
    judged = verdict(died(signal=9), ("[2026-12-01 05:02:15] Prefill batch", "Killed"))
    assert "with signal SIGKILL. Its log does not say why." in judged.summary
    assert "memory" not in judged.summary + judged.remedy
    assert judged.code is ExitCode.ENGINE_FAILED


def test_an_unknown_signal_is_told_by_its_number():
    assert "with signal 44." in verdict(died(signal=44)).summary


def test_a_death_that_nobody_saw_says_so():
    judged = verdict(EngineDied(State.READY, None, 0, 5.0))
    assert "a signal to its warden; how the engine itself ended was not seen" in judged.summary


def test_a_silent_death_is_not_explained():
    assert "Its log does not say why." in verdict(died(code=1)).summary


def test_a_refused_command_line_is_a_matter_of_configuration_and_shows_the_complaint():
    judged = verdict(died(code=2, phase=State.STARTING), REFUSAL)
    assert judged.code is ExitCode.CONFIGURATION
    assert judged.summary == f"The engine refused its command line. Its log says: {REFUSAL[-1]}"


def test_exit_code_2_without_the_complaint_is_not_taken_for_one():
    assert verdict(died(code=2), TRACEBACK).code is ExitCode.ENGINE_FAILED
    assert verdict(died(code=2)).code is ExitCode.ENGINE_FAILED


def test_a_complaint_with_another_exit_code_is_not_taken_for_a_refusal():
    assert verdict(died(code=1), REFUSAL).code is ExitCode.ENGINE_FAILED


def test_evidence_is_the_end_of_the_log():
    tail = [f"line {number}" for number in range(100)]
    assert verdict(died(code=1), tail).evidence == tuple(tail[-EVIDENCE_LINES:])


# Lines that tell


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: the model needs 4 devices",
        "torch.OutOfMemoryError: HIP out of memory.",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error.",
        "AssertionError",
        "AssertionError  ",
        "KeyboardInterrupt",
        "json.decoder.JSONDecodeError: Expecting value",
        "subprocess.CalledProcessError: Command 'hipcc' returned non-zero exit status 1.",
        "launch_server.py: error: unrecognized arguments: --foo",
        "sglang serve: error: argument --tp: invalid int value: 'two'",
        "[2026-12-01 05:02:15] RuntimeError: the port is taken",
        "[2026-12-01 05:02:15 PP1 TP3] Scheduler hit an exception: Traceback (most recent call last):",
    ],
)
def test_a_line_that_begins_with_an_error_tells(line: str):
    assert telling_line(["first", line, "last"]) == line.strip()


@pytest.mark.parametrize(
    "line",
    [
        "[2026-12-01 05:02:15] Receive: obj=GenerateReqInput(text='why does it say error: no such file?')",
        "[2026-12-01 05:02:15] Receive: obj=GenerateReqInput(text='[1] ValueError: explain this')",
        "[2026-12-01 05:02:15] Finish: out={'text': 'KeyError: means that a key is missing'}",
        '[2026-12-01 05:02:15] INFO:     127.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
        "[2026-12-01 05:02:15] Ignore import error when loading sglang.srt.models.grok: no attribute",
        "    raise ValueError(message)",
        "    except ValueError: pass",
        "Errors: 0",
        "Exceptional throughput: 900 token/s",
        "Traceback (most recent call last):",
        "Killed",
        "",
    ],
)
def test_a_line_that_only_mentions_an_error_does_not_tell(line: str):
    assert telling_line([line]) is None


def test_the_last_telling_line_is_the_one():
    assert telling_line(["ValueError: first", "KeyError: last", "bye"]) == "KeyError: last"


def test_no_lines_tell_nothing():
    assert telling_line(()) is None
