"""Sentences of a verdict."""

import re
from collections.abc import Mapping

from entrypoint.readable import shortened
from entrypoint.verdict.evidence import RankEnd

_PLACE = re.compile(r"\{(\w+)\}")
_DOING = {"ready": "serving", "degraded": "serving", "engine-up": "warming up", "held": "held for another look"}
"""Phases whose names do not say what was done in them."""
UNSEEN = "a signal to its warden; how the engine itself ended was not seen"


def how_it_ended(end: RankEnd, *, named: bool) -> str:
    """Return in which phase a rank ended, after how long and with what; empty where nothing of it is known.

    Args:
        end: The rank.
        named: Say which one: there are others.
    """
    who = f"The engine of rank {end.rank}" if named else "The engine"
    when = f"while {_DOING.get(end.phase, end.phase)}" if end.phase else ""
    if end.status is None and end.lived_s is None:
        whose = f"The log of rank {end.rank}" if named else "The log"
        return f"{whose} ends {when}." if when else ""
    words = " ".join(filter(None, (who, "ended by itself", when)))
    after = "" if end.lived_s is None else f", after {end.lived_s:.1f} s"
    return f"{words}{after}, with {end.status or UNSEEN}."


def with_fields(text: str, fields: Mapping[str, str]) -> str:
    """Return a signature's sentence with the fields of the line in it, or an ellipsis for one that is not there."""
    return _PLACE.sub(lambda place: shortened(fields.get(place[1]) or "…"), text)


def first_upper(text: str) -> str:
    """Return a sentence with its first letter in upper case, the rest as it is."""
    return text[:1].upper() + text[1:]


def size(count: int) -> str:
    """Return bytes in GiB, or in MiB where that says more."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"
