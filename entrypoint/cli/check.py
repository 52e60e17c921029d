"""``supervise check``: preflight alone."""

import asyncio
import json
import sys

from entrypoint.cli.findings import table
from entrypoint.cli.parse import Call
from entrypoint.cli.prepare import prepare
from entrypoint.findings import errors
from entrypoint.plan.render import finding_data
from entrypoint.run import preflight
from entrypoint.warm.directories import prepare as prepare_directories


def perform(call: Call) -> int:
    """Look at everything that can be known to fail; return 0, or the first error's exit code."""
    prepared = prepare(call)
    plan = prepared.plan
    outcome = asyncio.run(
        preflight.check(plan, plan.engine_environment(prepared.secrets), prepared.store, prepared.replan)
    )
    findings = (*outcome.findings, *prepare_directories(outcome.plan.caches))
    if call.options.format == "json":
        sys.stdout.write(json.dumps([finding_data(finding) for finding in findings], indent=2) + "\n")
    else:
        sys.stdout.write(table(findings) or "nothing to report\n")
    refusing = errors(findings)
    return int(refusing[0].code) if refusing else 0
