"""Orphans, in a process of their own: whoever runs these tests must neither adopt nor reap anybody."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WITHIN_S = 30
HELPERS = """
import os, signal, subprocess, sys, time
from pathlib import Path
from entrypoint.run import orphans

def state(pid):
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except FileNotFoundError:
        return None
    return rest.split()[0], int(rest.split()[1])

def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)

def orphan(command):
    "Start a command whose parent ends at once, and wait until it is ours."
    parent = subprocess.Popen(["sh", "-c", f"{command} >/dev/null & echo $!"], stdout=subprocess.PIPE)
    orphans.own(parent.pid)
    pid = int(parent.communicate()[0])
    orphans.disown(parent.pid)
    until(lambda: state(pid)[1] == os.getpid())
    return pid
"""


def run(code: str, *prefix: str) -> None:
    """Run code in a new process; fail with what it says when it fails."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", HELPERS + code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_orphan_that_has_ended_is_collected_and_one_that_lives_is_not():
    run("""
orphans.adopt()
short, long = orphan("sleep 0.1"), orphan("sleep 100")
until(lambda: state(short)[0] == "Z")
assert orphans.reap() == (short,)
assert state(short) is None
assert state(long)[0] in "SR"
os.kill(long, signal.SIGKILL)
""")


def test_a_child_that_somebody_waits_for_is_left_to_him():
    run("""
orphans.adopt()
child = subprocess.Popen(["sh", "-c", "exit 7"])
orphans.own(child.pid)
until(lambda: state(child.pid)[0] == "Z")
assert orphans.reap() == ()
assert child.wait() == 7
""")


def test_a_child_that_was_waited_for_is_forgotten():
    run("""
orphans.adopt()
child = subprocess.Popen(["true"])
orphans.own(child.pid)
orphans.disown(child.pid)
until(lambda: state(child.pid)[0] == "Z")
assert orphans.reap() == (child.pid,)
child.returncode = 0
""")


def test_a_child_of_another_thread_is_collected_as_well():
    run("""
import threading
orphans.adopt()
started, go = threading.Event(), threading.Event()
pids = []
def start():
    pids.append(os.posix_spawnp("true", ["true"], os.environ))
    started.set()
    go.wait()
thread = threading.Thread(target=start)
thread.start()
started.wait()
until(lambda: state(pids[0])[0] == "Z")
assert orphans.reap() == tuple(pids)
go.set()
thread.join()
""")


def test_without_children_there_is_nothing_to_collect_or_to_kill():
    run("assert orphans.reap() == orphans.slay() == ()")


def test_slaying_ends_orphans_and_what_is_below_them_and_spares_what_is_owned():
    run("""
orphans.adopt()
owned = subprocess.Popen(["sh", "-c", "sleep 100 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
orphans.own(owned.pid)
below_owned = int(owned.stdout.readline())
stray = orphan("sh -c 'sleep 100; sleep 100'")
until(lambda: [pid for pid in orphans.descendants(stray)])
(below_stray,) = orphans.descendants(stray)
assert set(orphans.slay()) == {stray, below_stray}
until(lambda: not orphans.slay())
assert state(stray) is None and state(below_stray) is None
assert state(owned.pid)[0] in "SR" and state(below_owned)[0] in "SR"
os.kill(below_owned, signal.SIGKILL)
owned.communicate()
""")


def test_the_first_process_of_a_container_adopts_by_nature_and_collects_as_well():
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a PID namespace takes root and unshare(1)")
    unshare = ("unshare", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine permits no PID namespace")
    run(
        """
assert os.getpid() == 1
pid = orphan("sleep 0.1")
until(lambda: state(pid)[0] == "Z")
assert orphans.reap() == (pid,)
""",
        *unshare,
    )
