"""How a process ended, in words and back."""

import signal

import pytest

from entrypoint.exit_status import ExitStatus


@pytest.mark.parametrize("code", range(256))
def test_every_exit_code_can_be_read_back(code: int):
    status = ExitStatus.from_wait_status(code << 8)
    assert str(status) == f"exit code {code}"
    assert ExitStatus.parse(str(status)) == status == ExitStatus.from_return_code(code)


@pytest.mark.parametrize("number", range(1, signal.NSIG))
def test_every_signal_can_be_read_back(number: int):
    status = ExitStatus.from_wait_status(number)
    assert ExitStatus.parse(str(status)) == status == ExitStatus.from_return_code(-number)


@pytest.mark.parametrize("text", ["", "None", "exit code", "exit code x", "signal SIGNOT", "SIGKILL", "9"])
def test_other_words_are_no_status(text: str):
    assert ExitStatus.parse(text) is None
