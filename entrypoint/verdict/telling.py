"""The telling line: what a log says about its end where no signature fits."""

import re
from collections.abc import Sequence

TELLING_LINES = 40
"""How far from the end the line that tells why may stand: libraries print their farewells after it."""
REFUSAL = re.compile(r"(?:sglang serve|[\w.-]+): error: .")
"""How argparse complains."""
_TELLING = re.compile(
    r"(?: *\d+: )?(?:\[[^\]]*\]:? ?)?"
    rf"(?:[\w.]*(?:Error|Exception|Interrupt)(?::|\s*$)|{REFUSAL.pattern}|\w+ hit an exception: )"
)
"""Lines that begin by naming an error: the last of a traceback, argparse's complaint, SGLang's own announcement. What
stands further on may be a user's text."""


def telling_line(tail: Sequence[str]) -> str | None:
    """Return the last line that names an error, or None: better no reason than a guessed one.

    Only the last lines count: after hours of serving an older one is about some client's request.
    """
    for line in reversed(tail[-TELLING_LINES:]):
        if _TELLING.match(line):
            return line.strip()
    return None
