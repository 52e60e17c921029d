"""Who holds a lock file, told from what it says and from a tree of processes."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrypoint.warm import lock_owner
from entrypoint.warm.lock_owner import (
    CLOCK_SLACK_S,
    INITIAL_PID_NAMESPACE,
    Alive,
    Owner,
    Vantage,
    openers,
    owner_by_pid,
    owner_of,
)

HOST = "n0"
BOOT_S = 1_000_000.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CONTAINER = 4026532567
ME = os.geteuid()


class Processes:
    """A tree of /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def add(
        self,
        pid: int,
        *,
        user: int = ME,
        began_s: float = 100,
        opens: tuple[Path, ...] = (),
        state: str = "S",
        job: str = "",
    ) -> None:
        """Add a process that began so many seconds after the host's start."""
        directory = self.root / str(pid)
        (directory / "fd").mkdir(parents=True)
        rest = " ".join(["1", *["0"] * 17, str(round(began_s * TICKS_PER_S)), "0"])
        (directory / "stat").write_text(f"{pid} (a) b) {state} {rest}\n")
        (directory / "status").write_text(f"Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\n")
        (directory / "environ").write_text(f"A=1\0SLURM_JOB_ID={job}\0" if job else "A=1\0")
        for number, path in enumerate(opens):
            (directory / "fd" / str(number)).symlink_to(path)


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path / "proc")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return made(tmp_path / "lock")


def made(path: Path, content: str = "", at_s: float = 200) -> Path:
    """Make a lock so many seconds after the host's start."""
    path.write_text(content)
    os.utime(path, (BOOT_S + at_s, BOOT_S + at_s))
    return path


def look(
    lock: Path, processes: Processes, *, namespace: int = INITIAL_PID_NAMESPACE, local: bool = True, user: int = ME
) -> Owner:
    vantage = Vantage(HOST, namespace, user, BOOT_S, processes.root)
    status = lock.stat()
    opened = openers({(status.st_dev, status.st_ino): lock}, vantage)
    return owner_of(lock, status, opened, vantage, local=local)


# By who has it open


def test_whoever_has_an_empty_lock_open_holds_it(lock: Path, processes: Processes):
    processes.add(4711, opens=(lock,), job="99")
    owner = look(lock, processes)
    assert owner == Owner(4711, HOST, BOOT_S + 200, "99", Alive.YES, "the process has it open")


def test_an_empty_lock_that_nobody_has_open_is_nobodys(lock: Path, processes: Processes, tmp_path: Path):
    processes.add(4711, opens=(made(tmp_path / "other"),))
    owner = look(lock, processes)
    assert (owner.pid, owner.host, owner.alive) == (None, "", Alive.NO)
    assert owner.how_known == "no process has it open"


def test_a_file_of_the_same_name_elsewhere_is_another_file(lock: Path, processes: Processes, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    processes.add(4711, opens=(made(tmp_path / "elsewhere" / "lock"),))
    assert look(lock, processes).alive is Alive.NO


def test_a_lock_that_was_made_anew_is_not_the_one_that_a_process_has_open(lock: Path, processes: Processes):
    processes.add(4711, opens=(lock,))
    status = lock.stat()
    lock.rename(lock.with_name("kept"))
    made(lock)
    vantage = Vantage(HOST, INITIAL_PID_NAMESPACE, ME, BOOT_S, processes.root)
    opened = openers({(status.st_dev, status.st_ino): lock}, vantage)
    assert owner_of(lock, lock.stat(), opened, vantage, local=True).alive is Alive.NO


def test_a_zombie_has_nothing_open(lock: Path, processes: Processes):
    processes.add(4711, state="Z", opens=(lock,))
    assert look(lock, processes).alive is Alive.NO


def test_other_users_processes_are_not_asked(lock: Path, processes: Processes):
    processes.add(4711, user=ME + 1, opens=(lock,))
    assert look(lock, processes).alive is Alive.NO


def test_nothing_is_proven_from_a_container_whose_process_ids_are_its_own(lock: Path, processes: Processes):
    owner = look(lock, processes, namespace=CONTAINER)
    assert owner.alive is Alive.UNKNOWN
    assert owner.how_known == "it does not say who made it"


def test_nothing_is_proven_of_a_file_that_other_nodes_see(lock: Path, processes: Processes):
    assert look(lock, processes, local=False).alive is Alive.UNKNOWN


def test_nothing_is_proven_where_a_process_may_not_be_looked_at(
    lock: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
):
    processes.add(4711)
    listing = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path.name == "fd":
            raise PermissionError
        return listing(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert look(lock, processes).alive is Alive.UNKNOWN


def test_a_process_that_ends_meanwhile_proves_nothing_against_the_rest(lock: Path, processes: Processes):
    processes.add(4711)
    (processes.root / "4711" / "fd").rmdir()
    assert look(lock, processes).alive is Alive.NO


def test_whoever_only_read_it_has_closed_it_at_the_second_look(
    lock: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
):
    processes.add(4711, opens=(lock,))
    looks = iter([True, False])
    real = lock_owner._open_as
    monkeypatch.setattr(lock_owner, "_open_as", lambda path, names: real(path, names) if next(looks) else None)
    assert look(lock, processes).alive is Alive.NO


def test_a_lock_of_another_user_is_not_judged(lock: Path, processes: Processes):
    owner = look(lock, processes, user=ME + 1)
    assert owner.alive is Alive.UNKNOWN
    assert owner.how_known == f"it belongs to user {ME}"


# By what it says


def test_a_pid_that_lives_holds_its_lock(processes: Processes, tmp_path: Path):
    processes.add(4711, job="99")
    owner = look(made(tmp_path / "l", f"4711\n{HOST}\n"), processes)
    assert owner == Owner(4711, HOST, BOOT_S + 200, "99", Alive.YES, "pid 4711 lives")


def test_a_pid_that_is_gone_is_dead(processes: Processes, tmp_path: Path):
    owner = look(made(tmp_path / "l", f"4711\n{HOST}\n"), processes)
    assert (owner.pid, owner.host, owner.alive) == (4711, HOST, Alive.NO)


def test_a_pid_that_is_a_zombie_is_dead(processes: Processes, tmp_path: Path):
    processes.add(4711, state="Z")
    assert look(made(tmp_path / "l", f"4711\n{HOST}\n"), processes).alive is Alive.NO


def test_a_pid_that_began_after_the_lock_was_made_is_another_process(processes: Processes, tmp_path: Path):
    processes.add(4711, began_s=200 + CLOCK_SLACK_S + 1)
    assert look(made(tmp_path / "l", f"4711\n{HOST}\n"), processes).alive is Alive.NO


def test_a_pid_that_began_a_little_after_the_lock_may_have_made_it_since_clocks_differ(
    processes: Processes, tmp_path: Path
):
    processes.add(4711, began_s=200 + CLOCK_SLACK_S - 1)
    assert look(made(tmp_path / "l", f"4711\n{HOST}\n"), processes).alive is Alive.YES


def test_a_pid_of_another_user_is_another_process(processes: Processes, tmp_path: Path):
    processes.add(4711, user=ME + 1)
    assert look(made(tmp_path / "l", f"4711\n{HOST}\n"), processes).alive is Alive.NO


def test_a_pid_that_is_missing_in_a_container_proves_nothing(processes: Processes, tmp_path: Path):
    owner = look(made(tmp_path / "l", f"4711\n{HOST}\n"), processes, namespace=CONTAINER)
    assert owner.alive is Alive.UNKNOWN
    assert owner.how_known == "pid 4711 is gone, unless it is one of another container"


def test_a_pid_of_this_container_by_its_own_word_that_is_missing_is_dead(processes: Processes, tmp_path: Path):
    lock = made(tmp_path / "l", f"4711\n{HOST}\npid:[{CONTAINER}]\n55\n")
    assert look(lock, processes, namespace=CONTAINER).alive is Alive.NO


def test_a_pid_of_another_container_by_its_own_word_proves_nothing(processes: Processes, tmp_path: Path):
    lock = made(tmp_path / "l", f"4711\n{HOST}\npid:[{CONTAINER + 1}]\n55\n")
    owner = look(lock, processes, namespace=CONTAINER)
    assert owner.alive is Alive.UNKNOWN
    assert "another container" in owner.how_known


def test_a_pid_with_the_start_that_the_lock_names_holds_it(processes: Processes, tmp_path: Path):
    processes.add(4711, began_s=150)
    lock = made(tmp_path / "l", f"4711\n{HOST}\npid:[{CONTAINER}]\n{150 * TICKS_PER_S}\n")
    assert look(lock, processes, namespace=CONTAINER).alive is Alive.YES


def test_a_pid_with_another_start_than_the_lock_names_is_another_process(processes: Processes, tmp_path: Path):
    processes.add(4711, began_s=150)
    lock = made(tmp_path / "l", f"4711\n{HOST}\npid:[{CONTAINER}]\n{150 * TICKS_PER_S + 1}\n")
    assert look(lock, processes, namespace=CONTAINER).alive is Alive.NO


def test_a_lock_of_another_host_cannot_be_judged_from_here(processes: Processes, tmp_path: Path):
    owner = look(made(tmp_path / "l", "4711\nn1\n"), processes, local=False)
    assert (owner.pid, owner.host, owner.alive) == (4711, "n1", Alive.UNKNOWN)
    assert owner.how_known == "pid 4711 is of n1, which cannot be looked at from here"


def test_json_is_understood(processes: Processes, tmp_path: Path):
    processes.add(4711)
    for name in ("host", "hostname"):
        owner = look(made(tmp_path / "l", f'{{"pid": 4711, "{name}": "{HOST}"}}'), processes)
        assert (owner.pid, owner.alive) == (4711, Alive.YES)


@pytest.mark.parametrize(
    "content", ["4711", "4711\n", "x\nn0\n", "-1\nn0\n", "{", '{"pid": "4711"}', '{"pid": 1}', "\x00\xff", "9" * 5000]
)
def test_a_lock_that_is_torn_or_not_understood_is_like_an_empty_one(processes: Processes, tmp_path: Path, content: str):
    processes.add(4711)
    owner = look(made(tmp_path / "l", content), processes, namespace=CONTAINER)
    assert (owner.pid, owner.alive, owner.how_known) == (None, Alive.UNKNOWN, "it does not say who made it")


# By the kernel's lock


def flocking(tmp_path: Path, host: str = HOST) -> Path:
    return made(tmp_path / "l", f"4711\n{host}\npid:[{CONTAINER + 1}]\n55\nflock\n")


def test_a_flock_that_is_held_is_alive_in_whatever_container(processes: Processes, tmp_path: Path):
    lock = flocking(tmp_path)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        owner = look(lock, processes, namespace=CONTAINER)
    assert (owner.pid, owner.alive, owner.how_known) == (4711, Alive.YES, "it is locked in the kernel")


def test_a_flock_that_is_released_is_dead_in_whatever_container(processes: Processes, tmp_path: Path):
    owner = look(flocking(tmp_path), processes, namespace=CONTAINER)
    assert (owner.alive, owner.how_known) == (Alive.NO, "the kernel has released its lock")


def test_a_flock_of_another_host_proves_nothing_on_a_file_that_both_see(processes: Processes, tmp_path: Path):
    assert look(flocking(tmp_path, "n1"), processes, local=False).alive is Alive.UNKNOWN


def test_no_lock_is_tried_on_a_file_that_does_not_speak_of_one(
    lock: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("a builder may be about to take it"))
    look(lock, processes)
    look(made(lock, f"4711\n{HOST}\n"), processes)


# Of what only a process id is known


@pytest.mark.parametrize(
    ("namespace", "began_s", "alive"),
    [
        (INITIAL_PID_NAMESPACE, 100, Alive.YES),
        (INITIAL_PID_NAMESPACE, 300, Alive.NO),
        (CONTAINER, 100, Alive.YES),
        (CONTAINER, 300, Alive.UNKNOWN),
    ],
)
def test_a_name_with_a_pid_is_its_processs(processes: Processes, namespace: int, began_s: float, alive: Alive):
    processes.add(4711, began_s=began_s)
    vantage = Vantage(HOST, namespace, ME, BOOT_S, processes.root)
    assert owner_by_pid(4711, BOOT_S + 200, openers({}, vantage), vantage).alive is alive


# The real /proc


def test_this_process_is_found_by_what_it_has_open(tmp_path: Path):
    lock = tmp_path / "lock"
    handle = os.open(lock, os.O_CREAT | os.O_EXCL)
    try:
        status = lock.stat()
        vantage = Vantage.here()
        opened = openers({(status.st_dev, status.st_ino): lock}, vantage)
        assert opened.pids == {(status.st_dev, status.st_ino): os.getpid()}
    finally:
        os.close(handle)


def test_this_process_began_before_now_and_after_the_boot():
    vantage = Vantage.here()
    ticks = lock_owner.start_ticks(os.getpid())
    assert ticks is not None
    assert vantage.boot_unix_s < vantage.unix_s(ticks) < Path("/proc/self").stat().st_mtime + CLOCK_SLACK_S


def test_no_namespace_is_known_without_proc(tmp_path: Path):
    assert Vantage.here(tmp_path).pid_namespace == 0
    assert not Vantage.here(tmp_path).sees_every_namespace
