"""``supervise check``: preflight alone."""

import asyncio
import json
import sys
from dataclasses import replace

from entrypoint.cli.findings import table
from entrypoint.cli.parse import Call
from entrypoint.cli.prepare import Prepared, prepare
from entrypoint.engine.signature_index import signature_index
from entrypoint.findings import Finding, Severity, errors, without_ignored
from entrypoint.node.directories import writable_finding
from entrypoint.node.ports import port_finding
from entrypoint.offload import offload
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.plan.plan import Plan
from entrypoint.plan.render import finding_data
from entrypoint.run import preflight
from entrypoint.warm.directories import prepare as prepare_directories
from entrypoint.warm.directories import shared_finding


def perform(call: Call) -> int:
    """Look at everything that can be known to fail; return 0, or the first error's exit code."""
    prepared = prepare(call)
    plan = prepared.plan
    signature_index(plan.settings.watch.signatures)  # a wrong file of rows ends a run before it starts, and this too
    findings = without_ignored(asyncio.run(_look(prepared)), plan.settings.rules.ignore)
    if call.options.format == "json":
        sys.stdout.write(json.dumps([finding_data(finding) for finding in findings], indent=2) + "\n")
    else:
        sys.stdout.write(table(findings, sys.stdout) or "nothing to report\n")
    refusing = errors(findings)
    return int(refusing[0].code) if refusing else 0


async def _look(prepared: Prepared) -> tuple[Finding, ...]:
    """Return everything that is found.

    Raises:
        SuperviseError: It took too long.
    """
    plan = prepared.plan
    environment = plan.engine_environment(prepared.secrets)
    limit_s = plan.settings.deadlines.check_s
    try:
        async with asyncio.timeout(limit_s):
            outcome = await preflight.check(plan, environment, prepared.store, prepared.replan)
            places = await offload(lambda: _places(outcome.plan), "places")
    except TimeoutError as error:
        raise SuperviseError(
            f"The check was not done within {limit_s:g} s: a file system hangs or is slow.",
            remedy="Look at the directories of model, caches and logs by hand, or raise deadlines.check_s.",
            code=ExitCode.RETRY_ELSEWHERE,
        ) from error
    return (*(_on_login_node(finding, outcome.plan) for finding in outcome.findings), *places)


def _on_login_node(finding: Finding, plan: Plan) -> Finding:
    """Return a missing engine as a note where nobody named one and no job runs: the image brings it.

    The rest of the check holds on a login node as well, and a job is not to be refused for what it will find.
    """
    named = plan.settings.engine.python is not None
    if finding.rule != "engine-python" or named or plan.node.step is not None or plan.engine.python.exists():
        return finding
    return replace(
        finding,
        severity=Severity.NOTE,
        message=f"There is no engine here: {plan.engine.python} does not exist. Its flags went unchecked.",
        remedy="Nothing, where the job runs in the image; else set engine.python.",
    )


def _places(plan: Plan) -> tuple[Finding, ...]:
    """Return what is wrong with the places that a run itself uses: its port and its directories."""
    health = plan.settings.health
    found = (
        port_finding(health.host, health.port, "the health endpoints", "health.port"),
        writable_finding(plan.run_directory.parent, "logs", "logs.dir"),
        *prepare_directories(plan.caches),
        shared_finding(plan.trees),
    )
    return tuple(finding for finding in found if finding is not None)
