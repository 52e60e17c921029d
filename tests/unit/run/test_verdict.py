from collections.abc import Sequence
from dataclasses import replace

from rank_ends import end, hit

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.engine.signature import Role, SignatureHit
from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode
from entrypoint.prove.transcript import CheckResult, Failure, FailureKind
from entrypoint.run.endings import (
    Disproved,
    Ending,
    EngineDied,
    Faulted,
    Hung,
    MemoryLow,
    Refused,
    SpawnFailed,
    Stalled,
    StopAsked,
)
from entrypoint.run.hang import Standstill, Stillness
from entrypoint.run.memory_history import LowMemory
from entrypoint.run.states import State
from entrypoint.run.verdict import judge
from entrypoint.verdict.evidence import LogEvidence
from entrypoint.verdict.explain import explain
from entrypoint.verdict.verdict import Verdict

LOG = "logs/7.0.0/server-0.log"


def verdict(ending: Ending, *hits: SignatureHit, tail: Sequence[str] = ()) -> Verdict:
    return judge(ending, LogEvidence(LOG, hits=hits, tail=tuple(tail)))


def finding(rule: str, message: str, code: ExitCode = ExitCode.CONFIGURATION) -> Finding:
    return Finding(rule, Severity.ERROR, message, f"Mend {rule}.", None, code)


# One ending after the other


def test_a_stop_that_was_asked_for_is_no_failure_and_says_who_asked_and_when():
    judged = verdict(StopAsked("SIGTERM", State.LOADING))
    assert (judged.code, judged.cause) == (ExitCode.STOPPED, Cause.STOPPED)
    assert judged.summary == "Stopped as asked by SIGTERM, while loading."
    assert (judged.remedy, judged.phase) == ("", "loading")


def test_a_refused_plan_ends_with_the_code_and_the_remedy_of_its_first_error():
    first = finding("port-taken", "Port 30000 is taken.", ExitCode.NODE_UNFIT)
    judged = verdict(Refused((first, finding("model-missing", "There is no model."))))
    assert judged.code is ExitCode.NODE_UNFIT
    assert judged.summary == "Port 30000 is taken. (1 more)"
    assert judged.remedy == "Mend port-taken."
    assert judged.evidence == ("port-taken: Port 30000 is taken.", "model-missing: There is no model.")
    assert judged.signature == "port-taken"


def test_one_error_alone_is_not_counted():
    assert verdict(Refused((finding("model-missing", "There is no model."),))).summary == "There is no model."


def test_a_stalled_engine_may_do_better_elsewhere_and_the_setting_is_named():
    stalled = Stalled(State.LOADING, 4200.4, 600.2, "deadlines.load_s", "3 of 9 shards loaded")
    judged = verdict(stalled, tail=("a line",))
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
    judged = verdict(Faulted(("Traceback (most recent call last):", "ValueError: boom")), hit())
    assert judged.cause is Cause.SUPERVISOR
    assert judged.summary == "The supervisor itself failed: ValueError: boom"
    assert judged.evidence[-1] == "ValueError: boom"


def test_a_stall_names_the_last_line_that_is_known_to_mean_something():
    waiting = hit("jit.baton", Role.BENIGN, Cause.HANG)
    stalled = Stalled(State.CAPTURING, 4200, 600, "deadlines.capture_s", None)
    judged = verdict(stalled, waiting)
    assert judged.signature == "jit.baton"
    assert waiting.line in judged.reasons[-1]
    assert judged.remedy.endswith("Mend jit.baton.")
    assert verdict(stalled, replace(waiting, health_after=1)).signature == ""


def test_a_death_is_explained_from_what_was_known_when_it_happened():
    ending = EngineDied(State.LOADING, 0, end(hit()))
    later = hit("b.later", number=90)
    assert verdict(ending, later) == explain([ending.end])


def test_a_death_is_seen_in_the_state_that_its_last_words_led_to():
    ending = EngineDied(State.STARTING, 0, end(phase="starting")).seen_in(State.CAPTURING)
    assert (ending.phase, ending.end.phase) == (State.CAPTURING, "capturing")


def test_a_hang_says_what_was_to_do_and_for_how_long_nothing_came():
    stacks = ("sglang::schedul (7, R): all_reduce (dist.py:10)",)
    judged = verdict(Hung(State.READY, Stillness(300, 3, Standstill.TOKENS), stacks), tail=("a line",))
    assert (judged.code, judged.cause, judged.retry) == (ExitCode.RETRY_ELSEWHERE, Cause.HANG, Retry.HERE)
    assert judged.summary == (
        "The engine hung while serving with 3 requests at work: its processes live, and for 300 s no token came."
    )
    assert judged.evidence == (*stacks, "a line")
    assert "watch.stall_s" in judged.remedy


def test_an_engine_that_hung_without_an_answer_is_told_as_that():
    judged = verdict(Hung(State.READY, Stillness(300, None, Standstill.ANSWERS)))
    assert judged.summary.endswith("no token came, and it does not answer either.")
    assert "requests" not in judged.summary


def test_an_engine_whose_scheduler_hangs_although_it_calls_itself_idle_is_told_as_that():
    judged = verdict(Hung(State.READY, Stillness(300, 0, Standstill.STEPS)))
    assert judged.summary == (
        "The engine hung while serving: its processes live, and for 300 s its scheduler finished no step."
    )


def test_a_run_that_ended_before_memory_ran_out_names_who_held_it():
    low = LowMemory(40.0, 9 << 30, 8 << 30, ("sglang::scheduler (process 7) 400.0 GiB",))
    judged = verdict(MemoryLow(State.READY, low))
    assert (judged.code, judged.cause) == (ExitCode.OUT_OF_MEMORY, Cause.MEMORY)
    assert "9.0 GiB were left, and the floor of 8.0 GiB was 40 s away" in judged.summary
    assert "sglang::scheduler (process 7) 400.0 GiB" in judged.summary


def test_a_stall_shows_where_every_process_stood():
    stalled = Stalled(State.LOADING, 4200, 600, "deadlines.load_s", None, ("sglang::schedul (7, D): read",))
    assert verdict(stalled, tail=("a line",)).evidence == ("sglang::schedul (7, D): read", "a line")


def test_a_stall_behind_a_failure_that_the_engine_outlived_is_because_of_it():
    taken = hit("net.addr_in_use", cause=Cause.PORT)
    judged = verdict(Stalled(State.LOADING, 4200, 600, "deadlines.load_s", None), taken)
    assert (judged.cause, judged.code, judged.confidence) == (Cause.PORT, ExitCode.NODE_UNFIT, Confidence.PROBABLE)
    assert judged.summary.startswith("Net.addr_in_use happened to it. The engine stalled while loading")
    assert judged.remedy == "Mend net.addr_in_use."
    assert judged.evidence[0] == taken.line


def test_a_stall_behind_lines_that_mean_nothing_for_it_is_a_mere_stall():
    ignored = hit("image.ignored_import", Role.BENIGN, Cause.CONFIGURATION)
    judged = verdict(Stalled(State.LOADING, 4200, 600, "deadlines.load_s", None), ignored)
    assert (judged.cause, judged.signature) == (Cause.HANG, "")
