"""Jobs: nodes and time that fit the profile and the site, and what may be unwise."""

import pytest

from entrypoint.batch.job import Job, doubts, make_job
from entrypoint.batch.time_limit import minutes_of, written
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings import profiles
from entrypoint.site.reading import read_site


def job(profile: str = "kimi27", nodes: int | None = None, time: str | None = None) -> Job:
    return make_job(profiles.read(profile), read_site("beverin"), site_word="beverin", nodes=nodes, time=time)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("90:30", 91), ("23:00:00", 1380), ("0:00:01", 1), ("1-0", 1440), ("1-2:30", 1590), ("1-0:0:1", 1441)],
)
def test_a_time_limit_is_read_as_slurm_reads_it(text: str, minutes: int):
    assert minutes_of(text) == minutes


@pytest.mark.parametrize("text", ["", "an hour", "1:2:3:4", "-1", "23h"])
def test_what_is_no_time_limit_is_refused(text: str):
    with pytest.raises(SuperviseError, match="is no time limit") as caught:
        minutes_of(text)
    assert caught.value.code is ExitCode.USAGE


def test_a_time_limit_is_written_with_two_digits_of_each():
    assert (written(1380), written(5), written(6000)) == ("23:00:00", "00:05:00", "100:00:00")


def test_by_default_a_job_is_one_server_for_the_sites_usual_time():
    made = job()
    assert (made.nodes, made.replicas, made.minutes, made.edf) == (4, 1, 1380, "kimi27-4nodes")


def test_a_multiple_of_the_nodes_is_several_servers_in_the_edf_of_one():
    made = job("qwen38", nodes=4)
    assert (made.nodes, made.replicas, made.edf) == (4, 4, "qwen38-1node")
    assert job("kimi27", nodes=8).replicas == 2


@pytest.mark.parametrize("nodes", [1, 3, 6])
def test_nodes_that_do_not_make_whole_servers_are_refused(nodes: int):
    with pytest.raises(SuperviseError, match="spans 4 nodes") as caught:
        job("kimi27", nodes=nodes)
    assert caught.value.code is ExitCode.CONFIGURATION


def test_more_time_than_the_partition_gives_is_refused():
    assert job(time="24:00:00").minutes == 1440
    for time in ("24:00:01", "0"):
        with pytest.raises(SuperviseError, match="no time that mi300 gives"):
            job(time=time)


def test_a_job_that_ends_before_its_server_is_ready_is_doubted():
    assert doubts(job(time="2:00:00")) == ("The job lasts 2 h, and kimi27 may take 2 h to be ready.",)
    assert doubts(job(time="2:01:00")) == ()
    assert doubts(job("gptoss120b", time="0:01:00")) == ()
