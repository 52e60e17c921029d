"""``supervise run``: the main job, and its dry run."""

import json
import signal
import sys
from types import FrameType

from entrypoint.cli.findings import refusal, table
from entrypoint.cli.parse import Call
from entrypoint.cli.prepare import Prepared, prepare
from entrypoint.cli.streams import complain
from entrypoint.findings import errors
from entrypoint.plan import render


def perform(call: Call) -> int:
    """Run a server, or print what would be run; return the exit code."""
    if call.options.dry_run:
        return dry_run(call)
    early = EarlySignals()
    prepared = prepare(call)
    _name_files(prepared)
    refusing = errors(prepared.plan.findings)
    if refusing:
        complain(table(prepared.plan.findings, sys.stderr) + refusal(refusing))
        return int(refusing[0].code)
    return _supervise(prepared, call, early)


def _supervise(prepared: Prepared, call: Call, early: "EarlySignals") -> int:
    import asyncio

    from entrypoint.engine.signature_index import signature_index
    from entrypoint.run import session

    given = session.SessionInput(
        plan=prepared.plan,
        secrets=prepared.secrets,
        masker=prepared.masker,
        store=prepared.store,
        replan=prepared.replan,
        early_signals=early.received,
        signatures=signature_index(prepared.plan.settings.watch.signatures),
        words=call.words,
    )
    return int(asyncio.run(session.run(given)))


def dry_run(call: Call) -> int:
    """Print the resolved command; start nothing, write nothing."""
    prepared = prepare(call)
    plan = prepared.plan
    if call.options.format == "json":
        sys.stdout.write(json.dumps(render.data(plan, prepared.masker), indent=2, default=str) + "\n")
    else:
        _name_files(prepared)
        complain(table(plan.findings, sys.stderr))
        sys.stdout.write(render.shell(plan, prepared.masker))
    refusing = errors(plan.findings)
    return int(refusing[0].code) if refusing else 0


def _name_files(prepared: Prepared) -> None:
    for path in prepared.plan.resolved.files:
        complain(f"supervise: settings from {path}\n")


class EarlySignals:
    """Keeps signals that come while Python is still importing; as PID 1 they would otherwise be lost."""

    def __init__(self) -> None:
        self._received: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, self._keep)

    def _keep(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)

    def received(self) -> tuple[int, ...]:
        """Return the signals so far."""
        return tuple(self._received)
