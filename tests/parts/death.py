"""What every report of a death for want of memory has in common, wherever it happened."""

from collections.abc import Mapping
from typing import Any

OUT_OF_MEMORY = 71


def assert_told_as_out_of_memory(report: Mapping[str, Any], *, group: str, limit: str) -> None:
    """The report is certain, and names the killer, the group and its limit.

    Args:
        report: The report as data.
        group: Path of the group that was killed in, or its beginning.
        limit: Its limit in words.
    """
    assert report["code"] == OUT_OF_MEMORY
    assert report["cause"] == "memory"
    assert report["confidence"] == "certain"
    assert "out-of-memory killer" in report["summary"]
    assert f"cgroup {group}" in report["summary"]
    assert f"limit is {limit}" in report["summary"]
