"""Owners: who holds the memory of a node, each page once."""

from pathlib import Path

import memory_trees as trees
from memory_trees import GIB, MIB

from entrypoint.node.memory import find_subjects, take_sample
from entrypoint.verdict.evidence import MemoryOwner
from entrypoint.verdict.owners import OWNERS_KEPT, in_words, owners


def test_the_largest_owner_comes_first_and_each_page_counts_once(tmp_path: Path):
    trees.mi300a(tmp_path)
    found = owners(take_sample(find_subjects(100, tmp_path), 0, 0, tmp_path))
    assert [(owner.name, owner.bytes // GIB) for owner in found] == [
        ("page cache", 80),
        ("GPU card4", 73),
        ("GPU card3", 72),
        ("GPU card2", 71),
        ("GPU card1", 70),
        ("sglang::scheduler_TP0", 20),
        ("other processes", 17),
        ("shared memory and tmpfs", 10),
        ("kernel", 3),
        ("python3", 2),
        ("sglang::detokenizer", 1),
    ]
    assert found[5].pid == 102


def test_only_the_largest_of_many_are_kept_and_nothing_tiny(tmp_path: Path):
    trees.meminfo(tmp_path, AnonPages=1023)
    for pid in range(2, 40):
        trees.process(tmp_path, pid, resident=pid * MIB)
    trees.process(tmp_path, 1, resident=4096)
    trees.thread(tmp_path, 1, 1, *range(2, 40))
    found = owners(take_sample(find_subjects(1, tmp_path), 0, 0, tmp_path))
    assert [owner.pid for owner in found] == [*range(39, 39 - OWNERS_KEPT, -1)]


def test_where_nothing_is_known_nobody_is_named(tmp_path: Path):
    assert owners(take_sample(find_subjects(1, tmp_path), 0, 0, tmp_path)) == ()


def test_an_owner_is_said_in_words():
    assert in_words(MemoryOwner("python3", 3 * GIB, 77)) == "python3 (process 77) 3.0 GiB"
    assert in_words(MemoryOwner("", 3 * MIB, 77)) == "a process (process 77) 3 MiB"
    assert in_words(MemoryOwner("page cache", 80 * GIB)) == "page cache 80.0 GiB"
