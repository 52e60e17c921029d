"""The command line: parse, call, print. Everything heavy is imported by the command that needs it."""

import sys
from collections.abc import Sequence

from entrypoint.cli import streams
from entrypoint.cli.parse import USAGE_ERROR, parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``supervise``; return its exit code."""
    streams.prepare()
    try:
        call = parse(sys.argv[1:] if argv is None else argv)
    except SystemExit:  # all is said: help, version or a usage error
        streams.settle(sys.stdout)
        raise
    if call is None:
        return USAGE_ERROR
    from entrypoint.cli.dispatch import dispatch

    return dispatch(call)
