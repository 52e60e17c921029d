"""The explanation: the first failure in time and role is the root, and no verdict is surer than its evidence."""

import pytest
from rank_ends import child_death, end, hit, killed, memory

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.engine.signature import Role
from entrypoint.exit_status import ExitStatus
from entrypoint.outcome import ExitCode
from entrypoint.verdict.evidence import LogPhase, MemoryOwner
from entrypoint.verdict.explain import explain

SIGQUIT = hit("exit.sigquit_run", Role.CASCADE, Cause.ENGINE, at=101.0, number=70)


# One rank


def test_a_line_with_a_signature_is_the_cause_with_its_remedy_and_its_consequences():
    verdict = explain([end(hit())])
    assert verdict.code is ExitCode.CONFIGURATION
    assert (verdict.cause, verdict.confidence, verdict.retry) == (Cause.CHECKPOINT, Confidence.CERTAIN, Retry.NEVER)
    assert verdict.signature == "load.thing"
    assert verdict.summary == (
        "Load.thing happened to it. The engine ended by itself while loading, after 12.3 s, with exit code 1."
    )
    assert verdict.remedy == "Mend load.thing."
    assert verdict.evidence == ("a line about load.thing", "the last line")
    assert verdict.line_number == 50


def test_the_first_of_several_is_the_root_and_the_others_follow_from_it():
    first, later = hit("a.first", at=90.0, number=40), hit("b.later", at=95.0, number=45)
    verdict = explain([killed(later, SIGQUIT, first)])
    assert verdict.signature == "a.first"
    assert verdict.cascades == (later.line, SIGQUIT.line)


@pytest.mark.parametrize("role", [Role.CASCADE, Role.CONFIRMATION, Role.BENIGN])
def test_what_is_no_root_by_its_role_is_never_the_cause(role: Role):
    verdict = explain([end(hit(role=role, cause=Cause.NETWORK))])
    assert verdict.confidence is Confidence.UNKNOWN
    assert verdict.signature == ""


def test_a_failure_that_the_engine_outlived_did_not_end_it():
    assert explain([end(hit(health_after=21))]).confidence is Confidence.UNKNOWN
    assert explain([end(hit(health_after=20))]).confidence is Confidence.CERTAIN


def test_what_comes_after_a_request_to_stop_is_teardown():
    assert explain([end(hit(number=50), stop_line=40, status=ExitStatus(0, None))]).cause is Cause.STOPPED
    assert explain([end(hit(number=30), stop_line=40)]).cause is Cause.CHECKPOINT


def test_an_engine_that_kills_itself_is_explained_by_what_made_it():
    verdict = explain([killed(hit(), SIGQUIT, memory=memory())])
    assert verdict.signature == "load.thing"
    assert "SIGKILL" in verdict.summary


def test_a_kill_that_nobody_explains_is_unknown_and_quotes_the_log():
    verdict = explain([killed(telling="ValueError: odd")])
    assert (verdict.code, verdict.confidence) == (ExitCode.ENGINE_FAILED, Confidence.UNKNOWN)
    assert verdict.summary.endswith("with signal SIGKILL. Its log says: ValueError: odd")
    assert "memory" not in verdict.summary


def test_a_kill_that_the_kernel_did_not_count_was_somebodys():
    assert "somebody sent this signal" in explain([killed(memory=memory())]).summary
    assert "somebody" not in explain([killed()]).summary


def test_out_of_memory_that_is_certain_comes_before_everything_else():
    verdict = explain([killed(hit(at=50.0), memory=memory(cgroup_oom_kills=1, limit_bytes=1 << 30, limit_of="/c"))])
    assert (verdict.code, verdict.cause, verdict.retry) == (ExitCode.OUT_OF_MEMORY, Cause.MEMORY, Retry.CHANGED)
    assert "of the cgroup /c, whose limit is 1.0 GiB" in verdict.summary
    assert "--mem=0" in verdict.remedy


def test_what_is_merely_possible_has_the_consequences_of_the_unknown():
    verdict = explain([killed(available_gib=0.5)])
    assert (verdict.cause, verdict.confidence) == (Cause.MEMORY, Confidence.POSSIBLE)
    assert (verdict.code, verdict.retry) == (ExitCode.ENGINE_FAILED, Retry.HERE)


def test_a_line_that_explains_it_is_better_than_a_possibility():
    assert explain([killed(hit(at=119.0), available_gib=0.5)]).signature == "load.thing"


@pytest.mark.parametrize("number", [4, 6, 7, 8, 11])
def test_a_crash_is_told_as_one(number: int):
    verdict = explain([end(status=ExitStatus(None, number))])
    assert (verdict.cause, verdict.confidence) == (Cause.ENGINE, Confidence.PROBABLE)
    assert "is a crash inside the engine" in verdict.summary


def test_a_process_of_the_engine_that_crashed_is_named():
    verdict = explain([killed(SIGQUIT, child_deaths=(child_death(11),))])
    assert "Its process scheduler_0 ended with signal SIGSEGV." in verdict.summary
    assert verdict.root == "scheduler_0"
    assert verdict.cascades == (SIGQUIT.line,)


def test_a_line_just_before_a_crash_explains_it():
    verdict = explain([killed(hit("gpu.fault", cause=Cause.KERNEL, at=99.0), child_deaths=(child_death(6),))])
    assert verdict.signature == "gpu.fault"


def test_a_stop_that_was_asked_for_is_no_failure():
    verdict = explain([end(stop_line=40, status=ExitStatus(0, None))])
    assert (verdict.code, verdict.cause) == (ExitCode.STOPPED, Cause.STOPPED)


def test_a_stop_that_the_supervisor_did_not_ask_for_was_somebody_elses():
    verdict = explain([end(stop_line=40, status=ExitStatus(0, None), phase="ready", unasked=True)])
    assert verdict.code is ExitCode.ENGINE_FAILED
    assert "somebody sent SIGTERM to the engine itself" in verdict.summary


def test_a_log_that_shows_no_failure_is_not_given_one():
    verdict = explain([end(status=None, lived_s=None, phase="ready")])
    assert verdict.confidence is Confidence.UNKNOWN
    assert verdict.summary == "The log shows no failure. The log ends while serving."


def test_a_clean_exit_that_nobody_asked_for_is_a_death():
    verdict = explain([end(status=ExitStatus(0, None), phase="ready")])
    assert "ended by itself while serving" in verdict.summary
    assert verdict.code is ExitCode.ENGINE_FAILED


def test_nothing_is_explained_from_nothing():
    with pytest.raises(ValueError, match="nothing is known"):
        explain([])


# Several ranks


def waiting(at: float, waited_ms: int = 600_012, number: int = 80) -> object:
    return hit(
        "net.nccl_timeout", cause=Cause.HANG, at=at, number=number, fields={"ms": str(waited_ms), "what": "a peer"}
    )


def test_the_rank_that_failed_first_is_the_root_and_those_who_waited_are_not():
    dead = killed(hit("gpu.fault", cause=Cause.KERNEL, at=1000.0), rank=2)
    verdict = explain([end(waiting(1601.0), rank=0), end(waiting(1600.5), rank=1), dead])
    assert verdict.signature == "gpu.fault"
    assert verdict.root == "rank 2"
    assert [line.partition(":")[0] for line in verdict.cascades] == ["rank 1", "rank 0"]
    assert "The engine of rank 2 ended by itself" in verdict.summary


def test_a_wait_begins_long_before_its_timeout_is_printed():
    earlier_wait = end(waiting(1600.0), rank=0)
    unrelated = end(hit("b.later", at=1300.0), rank=1)
    assert explain([earlier_wait, unrelated]).signature == "net.nccl_timeout"


def test_who_waited_for_a_silent_death_is_not_the_root():
    silent = killed(rank=3, memory=memory(cgroup_oom_kills=1))
    verdict = explain([end(waiting(800.0), rank=0), silent])
    assert (verdict.cause, verdict.root) == (Cause.MEMORY, "rank 3")


def test_those_who_only_suffer_point_elsewhere():
    suffering = hit("net.peer_closed", Role.CASCADE, Cause.NETWORK)
    verdict = explain([end(suffering, status=None, lived_s=None)])
    assert verdict.confidence is Confidence.UNKNOWN
    assert "follows from a failure elsewhere" in verdict.summary
    assert suffering.line in verdict.evidence


# Limits that have a name


def test_ten_minutes_of_waiting_are_nccls_default():
    assert "NCCL's default limit of 10 minutes" in explain([end(waiting(1600.0))]).summary
    assert "10 minutes" not in explain([end(waiting(1600.0, 1_800_003))]).summary


@pytest.mark.parametrize(("took_s", "named"), [(601.0, True), (600.0, True), (300.0, False), (700.0, False)])
def test_a_warm_up_of_ten_minutes_is_the_engines_own_limit(took_s: float, named: bool):  # noqa: FBT001
    up = LogPhase("engine-up", 30, 1000.0)
    verdict = explain([killed(hit("run.warmup", cause=Cause.HANG, at=1000.0 + took_s), phases=(up,))])
    assert ("limit of 600 s for its own warm-up" in verdict.summary) is named


def test_the_watchdogs_limit_is_named_with_its_flag():
    verdict = explain([killed(hit("run.watchdog", cause=Cause.HANG, fields={"seconds": "300"}))])
    assert "The limit is --watchdog-timeout, 300 s, its default." in verdict.summary
    other = explain([killed(hit("run.watchdog", cause=Cause.HANG, fields={"seconds": "1800"}))])
    assert "The limit is --watchdog-timeout, 1800 s." in other.summary


def test_the_barrier_after_loading_is_named():
    assert "480 s apart" in explain([end(hit("load.skew", cause=Cause.NETWORK))]).summary


# Who held what ran out

OWNERS = (MemoryOwner("page cache", 90 << 30), MemoryOwner("sglang::scheduler", 40 << 30, 7))


def test_of_a_whole_node_everybody_who_holds_memory_is_named():
    verdict = explain([killed(memory=memory(node_oom_kills=1, at_floor=True, owners=OWNERS))])
    assert verdict.remedy.endswith("Most was held by page cache 90.0 GiB, sglang::scheduler 40.0 GiB.")


def test_of_a_cgroup_only_the_engines_processes_are_named():
    limited = memory(cgroup_oom_kills=1, owners=OWNERS, limit_bytes=64 << 30, limit_of="/job")
    assert explain([killed(memory=limited)]).remedy.endswith("Most was held by sglang::scheduler 40.0 GiB.")
