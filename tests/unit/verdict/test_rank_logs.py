"""Which rank a file belongs to."""

import pytest

from entrypoint.verdict.rank_logs import RankLog, by_label, is_labelled, rank_logs


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["server-3.log"], {3: ["server-3.log"]}),
        (["/logs/812.0.0/server-2.log.gz"], {2: ["/logs/812.0.0/server-2.log.gz"]}),
        (["slurm.txt"], {0: ["slurm.txt"]}),
        (["2026-10-20.txt"], {0: ["2026-10-20.txt"]}),
        (["server-0.log", "server-0.log.1"], {0: ["server-0.log.1", "server-0.log"]}),
        (["server-1.log", "server-0.log"], {0: ["server-0.log"], 1: ["server-1.log"]}),
        (["server-2.log", "server-10.log"], {2: ["server-2.log"], 10: ["server-10.log"]}),
        (["job7/n002/log", "job7/n005/log"], {2: ["job7/n002/log"], 5: ["job7/n005/log"]}),
        (["a.log", "b.log"], {0: ["a.log"], 1: ["b.log"]}),
        (["main.log", "server-7.log"], {0: ["main.log"], 1: ["server-7.log"]}),
        (
            ["server-0.log", "server-0.log.1.gz", "server-0.log.2.gz"],
            {0: ["server-0.log.2.gz", "server-0.log.1.gz", "server-0.log"]},
        ),
        (
            ["server-0.log", "server-0.log-20261019.gz", "server-0.log-20261018.gz"],
            {0: ["server-0.log-20261018.gz", "server-0.log-20261019.gz", "server-0.log"]},
        ),
        (["server-3.log.1"], {3: ["server-3.log.1"]}),
        (["job.log.0", "job.log.1"], {0: ["job.log.0"], 1: ["job.log.1"]}),
        (["a.log", "a.log"], {0: ["a.log"]}),
        (["/dev/fd/63", "/dev/fd/62"], {0: ["/dev/fd/63"], 1: ["/dev/fd/62"]}),
        (["x1-1.log", "x1-1.txt"], {0: ["x1-1.log"], 1: ["x1-1.txt"]}),
    ],
)
def test_files_belong_to_ranks(names: list[str], ranks: dict[int, list[str]]):
    assert rank_logs(names) == tuple(RankLog(rank, tuple(files)) for rank, files in ranks.items())


def test_a_number_at_the_end_of_a_name_without_a_suffix_is_a_rank_and_no_age():
    assert [log.rank for log in rank_logs(["out.0", "out.1"])] == [0, 1]


LABELLED = b" 0: first\n 1: other\n 0: second\nsrun: error: task 1: Killed\n"


def test_the_lines_of_a_labelled_file_belong_to_their_tasks():
    assert dict(by_label(LABELLED)) == {
        0: b"first\nsecond\n",
        1: b"other\n",
        None: b"srun: error: task 1: Killed\n",
    }


def test_what_a_bar_draws_over_belongs_to_the_task_of_its_line():
    assert dict(by_label(b"0: 10%\r20%\rdone\n1: a: b\nthus: said\n")) == {
        0: b"10%\r20%\rdone\n",
        1: b"a: b\n",
        None: b"thus: said\n",
    }


@pytest.mark.parametrize(
    ("block", "labelled"),
    [
        (b"0: a\n1: b\n" * 20, True),
        (b"10: a\n 9: b\n" * 20 + b"srun: done\n", True),
        (b"0: a\n0: b\n", False),  # one task: nothing to tell apart
        (b"[2026-10-20 10:00:00] a\n" * 20 + b"0: a\n1: b\n", False),
        (b"+ module load\n" * 20 + b"0: [2026-10-20 10:00:00] a\n1: [2026-10-20 10:00:00] b\n", True),
        (b"".join(b"%6d: a\n" % number for number in range(1, 20)), False),  # numbered lines
        (b"", False),
    ],
)
def test_a_file_is_labelled_where_nearly_all_of_its_lines_are(block: bytes, *, labelled: bool):
    assert is_labelled(block) is labelled
