"""Where processes stand, whatever state they are in."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrypoint.run import stacks
from entrypoint.run.stacks import NO_BINARY, NOT_PERMITTED, ProcessStack, take_stacks, write_stacks
from entrypoint.settings.redaction import Masker

PARENT = """
import subprocess, sys, time
children = [subprocess.Popen([sys.executable, "-c", code]) for code in sys.argv[1:]]
print("up", flush=True)
sys.stdin.read()
for child in children:
    child.kill()
    child.wait()
"""
SLEEPS = "import time\ndef waits_for_a_peer():\n    time.sleep(600)\nwaits_for_a_peer()"
NAMED = f"import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n{SLEEPS}"
SPINS = "def spins_in_a_collective():\n    while True: pass\nspins_in_a_collective()"

Family = Callable[..., int]


@pytest.fixture
def family() -> Iterator[Family]:
    """Return a function that starts a process with children that run Python code."""
    started: list[subprocess.Popen[str]] = []

    def start(*codes: str) -> int:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, *codes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(parent)
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        return parent.pid

    yield start
    for parent in started:
        with parent:
            pass


def taken(parent: int, *, until: Callable[[list[ProcessStack]], bool]) -> list[ProcessStack]:
    """Return the stacks once they are what is waited for: a child takes a moment to come to its code."""

    async def take() -> list[ProcessStack]:
        async with asyncio.timeout(60):
            while True:
                found = list(await take_stacks(parent))
                if until(found):
                    return found

    return asyncio.run(take())


def standing_in(function: str) -> Callable[[list[ProcessStack]], bool]:
    return lambda found: any(function in frame for stack in found for frame in stack.frames)


@pytest.mark.parametrize(
    ("code", "function"),
    [(SLEEPS, "waits_for_a_peer"), (SPINS, "spins_in_a_collective"), (NAMED, "waits_for_a_peer")],
    ids=["sleeping", "spinning", "with threads"],
)
def test_a_process_that_waits_or_spins_is_found_in_its_function(family: Family, code: str, function: str):
    (stack,) = taken(family(code), until=standing_in(function))
    assert function in stack.frames[0]
    assert function in str(stack)
    assert stack.state in {"R", "S"}


def test_a_process_that_is_stopped_is_read_as_it_lies(family: Family):
    parent = family(SLEEPS)
    (stack,) = taken(parent, until=standing_in("waits_for_a_peer"))
    os.kill(stack.pid, signal.SIGSTOP)
    (stopped,) = taken(parent, until=standing_in("waits_for_a_peer"))
    assert stopped.state == "T"


def test_more_processes_than_are_taken_at_once_are_all_taken(family: Family):
    parent = family(*[SLEEPS] * (stacks.AT_ONCE + 2))
    found = taken(parent, until=lambda found: all("waits_for_a_peer" in str(stack) for stack in found))
    assert len(found) == stacks.AT_ONCE + 2


def test_a_process_that_is_no_python_has_no_frames_and_says_so(family: Family):
    code = "import os; os.execvp('sleep', ['sleep', '600'])"
    (stack,) = taken(family(code), until=lambda found: [stack.name for stack in found] == ["sleep"])
    assert stack.frames == ()
    assert stack.text


def test_a_process_that_is_gone_is_no_error():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert asyncio.run(take_stacks(process.pid)) == ()


@pytest.mark.parametrize(
    "said",
    [
        "Error: Permission denied (os error 13)",
        "Permission Denied: Try running again with elevated permissions by going 'sudo env ...'",
        "Error: Operation not permitted (os error 1)",
    ],
)
def test_what_may_not_be_looked_at_names_what_is_missing(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
):
    denied = tmp_path / "py-spy"
    denied.write_text(f'#!/bin/sh\necho "{said}"\nexit 1\n')
    denied.chmod(0o700)
    monkeypatch.setattr(stacks, "_binary", lambda: str(denied))
    (stack,) = asyncio.run(take_stacks(family(SLEEPS)))
    assert stack.text == NOT_PERMITTED
    assert "SYS_PTRACE" in str(stack)


def test_a_tool_that_is_not_there_is_said(family: Family, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stacks, "_binary", lambda: None)
    (stack,) = asyncio.run(take_stacks(family(SLEEPS)))
    assert stack.text == NO_BINARY


def test_a_tool_that_hangs_is_ended(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hanging = tmp_path / "py-spy"
    hanging.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    hanging.chmod(0o700)
    monkeypatch.setattr(stacks, "_binary", lambda: str(hanging))
    monkeypatch.setattr(stacks, "EACH_S", 1.0)
    (stack,) = asyncio.run(take_stacks(family(SLEEPS)))
    assert "did not answer within 1 s" in stack.text
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_the_file_is_private_and_holds_no_secret(tmp_path: Path):
    path = tmp_path / "stacks-0-0.txt"
    write_stacks(
        path, [ProcessStack(7, "sglang::schedul", "R", (), "serve (key='s3cret-key')")], Masker(["s3cret-key"])
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "== sglang::schedul (7), state R" in text
    assert "s3cret-key" not in text
