"""The lease: one builds, and a dead holder keeps nobody waiting."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

from entrypoint.warm.jit import lease
from entrypoint.warm.jit.lease import FILE, STALE_S, UNREADABLE, Holder, Lease

ELSEWHERE = Holder("other", "nid002", 77, 4026531836, 5, "812")


def write(tree: Path, holder: Holder, age_s: float = 0) -> None:
    path = tree / FILE
    path.write_text(json.dumps(asdict(holder)))
    now = path.stat().st_mtime
    os.utime(path, (now - age_s, now - age_s))


def test_the_first_takes_it_and_the_second_hears_who_holds_it(tmp_path: Path):
    first, second = lease.myself("7"), lease.myself()
    assert Lease(tmp_path, first).take() is None
    assert Lease(tmp_path, second).take() == first
    assert "(job 7)" in str(first)


def test_given_back_it_is_free_and_nothing_stays(tmp_path: Path):
    mine = Lease(tmp_path, lease.myself())
    mine.take()
    mine.renew()
    mine.give_back()
    assert list(tmp_path.iterdir()) == []
    assert Lease(tmp_path, lease.myself()).take() is None


def test_a_dead_holder_of_this_machine_is_known_at_once(tmp_path: Path):
    me = lease.myself()
    write(tmp_path, replace(me, word="dead", started_ticks=me.started_ticks - 1))
    assert Lease(tmp_path, me).take() is None


def test_a_living_holder_of_this_machine_is_believed_however_old_its_file(tmp_path: Path):
    me = lease.myself()
    write(tmp_path, replace(me, word="living"), age_s=10 * STALE_S)
    assert Lease(tmp_path, lease.myself()).take() == replace(me, word="living")


def test_a_holder_elsewhere_is_dead_when_its_file_is_old_and_not_before(tmp_path: Path):
    write(tmp_path, ELSEWHERE, age_s=STALE_S / 2)
    assert Lease(tmp_path, lease.myself()).take() == ELSEWHERE
    write(tmp_path, ELSEWHERE, age_s=STALE_S * 2)
    assert Lease(tmp_path, lease.myself()).take() is None


def test_one_in_another_container_of_this_machine_is_judged_by_its_file(tmp_path: Path):
    me = lease.myself()
    write(tmp_path, replace(me, word="other", pid_namespace=1, pid=1 << 22))
    assert Lease(tmp_path, lease.myself()).take() is not None


def test_a_torn_lease_is_held_by_nobody_known_until_it_is_old(tmp_path: Path):
    (tmp_path / FILE).write_text("{")
    assert Lease(tmp_path, lease.myself()).take() == UNREADABLE
    old = (tmp_path / FILE).stat().st_mtime - 2 * STALE_S
    os.utime(tmp_path / FILE, (old, old))
    assert Lease(tmp_path, lease.myself()).take() is None


def test_one_that_was_taken_away_is_neither_renewed_nor_given_back(tmp_path: Path):
    mine = Lease(tmp_path, lease.myself())
    mine.take()
    write(tmp_path, ELSEWHERE)
    assert not mine.renew()
    mine.give_back()
    assert mine.holder() == ELSEWHERE


def test_those_who_wait_hear_how_far_the_holder_is(tmp_path: Path):
    mine = Lease(tmp_path, lease.myself())
    mine.take()
    assert Lease(tmp_path, lease.myself()).heard() == ""
    mine.progress = "3 of 12 steps"
    mine.renew()
    assert Lease(tmp_path, lease.myself()).heard() == "3 of 12 steps"
