"""What to type next."""

from dataclasses import replace
from pathlib import Path

import pytest

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.outcome import ExitCode
from entrypoint.tell.next_command import next_command
from entrypoint.verdict.verdict import Verdict

LOG = Path("/logs/my run/server-0.log")
WORDS = ("--config", "my supervise.toml")
VERDICT = Verdict(
    code=ExitCode.CONFIGURATION,
    summary="x",
    remedy="y",
    evidence=(),
    phase="loading",
    cause=Cause.CONFIGURATION,
    confidence=Confidence.CERTAIN,
    retry=Retry.NEVER,
)


def typed(verdict: Verdict, *, job_id: str | None = None) -> list[str]:
    """Return the lines for a shell."""
    return next_command(verdict, log_path=LOG, words=WORDS, job_id=job_id).splitlines()


def test_a_wrong_setting_is_looked_for_without_node_time():
    assert typed(VERDICT) == ["supervise check --config 'my supervise.toml'   # after the change; starts nothing"]


def test_the_log_is_opened_a_little_above_the_line_that_tells():
    assert typed(replace(VERDICT, line_number=120))[0] == "less +110 '/logs/my run/server-0.log'"
    assert typed(replace(VERDICT, line_number=3))[0] == "less +1 '/logs/my run/server-0.log'"


@pytest.mark.parametrize("confidence", [Confidence.UNKNOWN, Confidence.POSSIBLE])
def test_who_does_not_know_is_sent_to_the_end_of_the_log(confidence: Confidence):
    unknown = replace(VERDICT, cause=Cause.UNKNOWN, confidence=confidence)
    assert typed(unknown) == ["tail -n 200 '/logs/my run/server-0.log'"]


def test_a_job_whose_end_was_not_its_own_fault_is_requeued():
    lost = replace(VERDICT, cause=Cause.NETWORK, retry=Retry.HERE)
    assert typed(lost, job_id="4711") == ["scontrol requeue 4711"]
    assert typed(lost) == ["supervise --config 'my supervise.toml'"]


def test_another_node_is_asked_for_where_this_one_is_at_fault():
    broken = replace(VERDICT, cause=Cause.DEVICE, retry=Retry.ELSEWHERE)
    assert typed(broken)[-1] == "supervise --config 'my supervise.toml'   # on another node"


def test_memory_is_not_tried_again_as_it_was():
    memory = replace(VERDICT, cause=Cause.MEMORY, retry=Retry.CHANGED, line_number=50)
    assert typed(memory, job_id="4711") == ["less +40 '/logs/my run/server-0.log'"]


def test_after_a_stop_there_is_nothing_to_type():
    stopped = replace(VERDICT, cause=Cause.STOPPED, confidence=Confidence.UNKNOWN, retry=Retry.HERE)
    assert typed(stopped, job_id="4711") == []
