"""Findings and endings: what refuses a run, and with which code."""

import pytest

from entrypoint.findings import Finding, Severity, errors, without_ignored
from entrypoint.outcome import ExitCode, SuperviseError

ERROR = Finding("a", Severity.ERROR, "message", "remedy", code=ExitCode.NODE_UNFIT)
WARNING = Finding("b", Severity.WARNING, "message", "remedy")
NOTE = Finding("c", Severity.NOTE, "message", "remedy")


def test_only_errors_refuse_a_run():
    assert errors((NOTE, ERROR, WARNING)) == (ERROR,)
    assert errors((NOTE, WARNING)) == ()


def test_an_ignored_rule_is_left_out_and_the_order_stays():
    assert without_ignored((NOTE, ERROR, WARNING), frozenset({"a", "unknown"})) == (NOTE, WARNING)
    assert without_ignored((NOTE, ERROR), frozenset()) == (NOTE, ERROR)


def test_a_finding_is_about_the_configuration_unless_it_says_otherwise():
    assert WARNING.code is ExitCode.CONFIGURATION


@pytest.mark.parametrize("code", ExitCode)
def test_no_exit_code_looks_like_a_signal_or_like_slurms(code: ExitCode):
    assert 0 <= code < 128


def test_codes_are_apart():
    assert len(ExitCode) == len({int(code) for code in ExitCode})


def test_an_error_says_what_is_wrong_and_then_what_to_do():
    error = SuperviseError("It is broken.", remedy="Mend it.", code=ExitCode.USAGE)
    assert str(error) == "It is broken.\nMend it."
    assert (error.message, error.remedy, error.code) == ("It is broken.", "Mend it.", ExitCode.USAGE)
