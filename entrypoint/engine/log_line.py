"""Lines of a log as people read them: without colours and labels, with the time and the rank told apart.

SGLang puts ``[2026-10-20 10:00:12.345 PP1 TP3] `` in front of what it says, PyTorch's C++ side
``[rank3]:[E1020 10:31:00.123 ProcessGroupNCCL.cpp:629] ``, and ``srun --label`` the number of the task. A traceback
has none of them, or ``[rank3]: ``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
PREFIX = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<tags>(?: [A-Z_]+\d+)*)\] ",
)
_LABEL = re.compile(r"(?: *\d{1,6}: )?(?:\[(?P<rank>rank\d{1,6})\]:? ?)?")
_GLOG = re.compile(
    r"\[[EWIF](?P<month>\d\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)[^\]]*\] ",
)


@dataclass(frozen=True, slots=True)
class Statement:
    """What one process says in one line.

    Attributes:
        text: The line, or its part, without colours.
        message: What stands behind labels, time and rank.
        rank_tags: Which rank says it, such as ``PP1 TP3`` or ``rank3``; empty where the line does not tell.
        time: Its own time stamp as it stands there; None without one.
        day: Month and day where the stamp has no year.
    """

    text: str
    message: str
    rank_tags: str = ""
    time: str | None = None
    day: tuple[int, int] | None = None


def statements(line: str) -> Iterator[Statement]:
    """Split a line that one process began and another one ended.

    A bar without a line's end is followed by whatever the next rank has to say. A line with the engine's own
    prefix is never split: what stands further on may be a user's text.
    """
    text = ANSI.sub("", line)
    later = None if text.startswith("[") else PREFIX.search(text)
    if later is None or _LABEL.fullmatch(text, 0, later.start()):
        yield _statement(text)
        return
    yield _statement(text[: later.start()])
    yield _statement(text[later.start() :])


def _statement(text: str) -> Statement:
    label = _LABEL.match(text)
    begin, rank = (label.end(), label["rank"] or "") if label else (0, "")
    if prefix := PREFIX.match(text, begin):
        return Statement(text, text[prefix.end() :], prefix["tags"].strip() or rank, prefix["time"])
    if glog := _GLOG.match(text, begin):
        day = (int(glog["month"]), int(glog["day"]))
        return Statement(text, text[glog.end() :], rank, glog["time"], day)
    return Statement(text, text[begin:], rank)


def unix_s(time: str, day: tuple[int, int] | None = None, *, after_s: float | None = None) -> float | None:
    """Return the Unix time of a time stamp, or None where it is no time.

    Logs carry local time without a zone: this machine's zone is assumed, and the repeated hour of an autumn night is
    taken for its first half.

    Args:
        time: ``2026-10-20 10:00:12.345``, or ``10:00:12.345`` where the day stands apart.
        day: Month and day of a stamp without a year.
        after_s: Unix time of a stamp before it, which gives the year.
    """
    text = time.replace(",", ".")
    if day is not None:
        if after_s is None:
            return None
        before = datetime.fromtimestamp(after_s).astimezone()
        year = before.year + (day[0] < before.month)
        text = f"{year:04}-{day[0]:02}-{day[1]:02} {text}"
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
