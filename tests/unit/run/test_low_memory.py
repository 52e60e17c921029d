"""What is said when memory is about to run out."""

from entrypoint.findings import Severity
from entrypoint.run.low_memory import low_memory_finding
from entrypoint.run.memory_history import LowMemory

GIB = 1 << 30


def test_the_warning_says_how_much_is_left_until_when_and_who_holds_most():
    finding = low_memory_finding(LowMemory(119.6, 20 * GIB, 8 * GIB, ("one 400.0 GiB", "page cache 30.0 GiB")))
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "20.0 GiB of memory are left; the floor of 8.0 GiB is reached in about 120 s. "
        "Most is held by one 400.0 GiB, page cache 30.0 GiB."
    )
    assert finding.setting == "watch.memory_floor_gib"


def test_at_the_floor_it_does_not_promise_any_time():
    finding = low_memory_finding(LowMemory(0.0, 7 * GIB, 8 * GIB, ()))
    assert finding.message == "7.0 GiB of memory are left; the floor of 8.0 GiB is reached now."
