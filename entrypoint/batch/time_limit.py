"""Slurm's time limits, as people write them (sbatch's manual, ``--time``)."""

import re

from entrypoint.outcome import ExitCode, SuperviseError

_FORMS = (
    re.compile(r"(?P<minutes>\d+)"),
    re.compile(r"(?P<minutes>\d+):(?P<seconds>\d+)"),
    re.compile(r"(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)"),
    re.compile(r"(?P<days>\d+)-(?P<hours>\d+)(?::(?P<minutes>\d+)(?::(?P<seconds>\d+))?)?"),
)
_MINUTES = {"days": 1440, "hours": 60, "minutes": 1}


def minutes_of(text: str) -> int:
    """Return a time limit in minutes, as Slurm rounds it: up.

    Raises:
        SuperviseError: It is none.
    """
    found = next((match for form in _FORMS if (match := form.fullmatch(text))), None)
    if found is None:
        raise SuperviseError(
            f"{text!r} is no time limit.",
            remedy="Write minutes, HH:MM:SS, or D-HH:MM:SS.",
            code=ExitCode.USAGE,
        )
    parts = {name: int(value) for name, value in found.groupdict().items() if value}
    whole = sum(parts.get(name, 0) * minutes for name, minutes in _MINUTES.items())
    return whole + (parts.get("seconds", 0) + 59) // 60


def written(minutes: int) -> str:
    """Return a time limit as HH:MM:SS."""
    return f"{minutes // 60:02}:{minutes % 60:02}:00"
