"""What passes logs on, and puts words of its own before their lines."""

import pytest

from entrypoint.verdict.carrier import carrier_of

PRINTED = b"[2026-10-20 10:00:00 TP0] Decode batch\nRuntimeError: it broke\n"


def carried(words: bytes, text: bytes = PRINTED) -> bytes:
    return b"".join(words + line for line in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    "words",
    [
        b"Oct  2 10:00:00 nid001 sglang[123]: ",
        b"2026-10-20T10:00:00+0200 nid001 sglang[123]: ",
        b"2026-10-20T10:00:00.123456789Z stderr F ",
        b"2026-10-20T10:00:00.123456789Z ",
        b"sglang-1  | ",
        b"\x1b[36msglang_1  |\x1b[0m ".replace(b"|\x1b[0m ", b"| \x1b[0m"),
        b"[pod/sglang-0/sglang] ",
        b"17:",
    ],
)
def test_the_words_of_a_carrier_are_taken_away(words: bytes):
    carrier = carrier_of(carried(words))
    assert carrier is not None
    assert carrier.strip(carried(words)) == PRINTED


def test_the_tasks_of_mpirun_become_those_of_srun():
    carrier = carrier_of(carried(b"[1,3]<stderr>:"))
    assert carrier is not None
    assert carrier.strip(carried(b"[1,3]<stderr>:")) == carried(b"3: ")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        PRINTED,
        carried(b"3: "),
        PRINTED * 20 + b"2026-10-20T10:00:00Z a word\n",
        b"Traceback (most recent call last):\n  | ValueError: a group\n" * 9,
        b"[pods] x\n",
    ],
)
def test_an_engine_s_own_words_are_no_carrier_s(text: bytes):
    assert carrier_of(text) is None
