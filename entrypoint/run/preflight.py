"""Preflight: everything that can be known to fail before the engine starts, looked at before it does."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from entrypoint.engine import checkpoint
from entrypoint.engine.flag_store import FlagStore
from entrypoint.engine.flags import FlagTable
from entrypoint.engine.introspection import introspection_command, not_started, parse_introspection, timed_out
from entrypoint.engine.model_location import ModelSource, hub_directory, locate, location_finding
from entrypoint.findings import Finding, Severity, without_ignored
from entrypoint.node.ports import port_finding
from entrypoint.offload import offload
from entrypoint.outcome import SuperviseError
from entrypoint.plan.plan import Plan
from entrypoint.plan.rules.flags import UNCHECKED
from entrypoint.run import orphans
from entrypoint.run.node_check import node_findings
from entrypoint.warm.prebuilt import hidden_modules_finding, prebuilt_modules

INTROSPECTION_S = 100.0
"""Importing SGLang takes 5 s from a warm disk and a minute from a cold network file system."""
INTROSPECTION_SHARE = 0.8
"""Share of the whole check's time that the import may take: what hangs is then named before the check is given up."""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What preflight found.

    Attributes:
        plan: The plan, made again where the engine told its flags.
        findings: Everything found, the plan's own findings included, ignored ones left out.
        notes: What happened on the side, in sentences.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


async def check(
    plan: Plan, environment: Mapping[str, str], store: FlagStore, replan: Callable[[FlagTable], Plan]
) -> CheckOutcome:
    """Look at model, ports and engine.

    Args:
        plan: The plan so far.
        environment: The engine's whole environment.
        store: Where lists of flags are kept.
        replan: Makes the plan again with the engine's flags.
    """
    quick = await offload(lambda: _files_and_ports(plan, environment), "preflight")
    on_node = await node_findings(plan, environment)
    notes: tuple[str, ...] = ()
    asked: tuple[Finding, ...] = ()
    if plan.engine.flags is None:
        try:
            limit_s = min(INTROSPECTION_S, INTROSPECTION_SHARE * plan.settings.deadlines.check_s)
            table = await ask_engine(plan.engine.python, environment, limit_s)
        except SuperviseError as error:
            asked = (
                Finding("engine-python", Severity.ERROR, error.message, error.remedy, "engine.python", error.code),
            )
        else:
            plan = replan(table)
            if table.version == plan.engine.version:
                notes = await offload(lambda: _remember(store, table, plan.engine.python), "flag-store")
    # Where the engine could not be asked, that is the finding: not also that its flags went unchecked.
    planned = [finding for finding in plan.findings if not asked or finding.rule != UNCHECKED]
    findings = without_ignored((*planned, *quick, *on_node, *asked), plan.settings.rules.ignore)
    return CheckOutcome(plan, findings, notes)


async def ask_engine(python: Path, environment: Mapping[str, str], timeout_s: float = INTROSPECTION_S) -> FlagTable:
    """Ask the engine's Python for its flags.

    Raises:
        SuperviseError: It does not exist, cannot import sglang, or does not answer.
    """
    said, complained = _memory_file("stdout"), _memory_file("stderr")
    try:
        # Started here, not in the thread, so that the reaper knows it from its first moment; starting does not block.
        process = subprocess.Popen(  # noqa: ASYNC220
            introspection_command(python),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complained,
            start_new_session=True,
        )
    except OSError as error:
        said.close()
        complained.close()
        raise not_started(python, error) from error
    orphans.own(process.pid)
    try:
        stdout, stderr = await asyncio.wait_for(
            offload(lambda: _converse(process, said, complained), "introspection"), timeout_s
        )
    except TimeoutError as error:
        _kill_group(process)
        raise timed_out(python, timeout_s) from error
    except asyncio.CancelledError:
        _kill_group(process)
        raise
    return parse_introspection(stdout, stderr, process.returncode, python=python)


def _memory_file(name: str) -> BinaryIO:
    """Return a file for output: the end of a pipe would only come with the end of every process that inherited it."""
    return os.fdopen(os.memfd_create(name), "w+b", buffering=0)


def _converse(process: subprocess.Popen[bytes], said: BinaryIO, complained: BinaryIO) -> tuple[bytes, bytes]:
    """Return what a process said once it has ended, in a thread: what hangs in the kernel ends when that lets it."""
    try:
        with said, complained:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            _kill_group(process)  # helpers that it left; before it is reaped, so that its number is still its own
            process.wait()
            return _content(said), _content(complained)
    finally:
        orphans.disown(process.pid)


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a session leader and what it started; the thread that talks to it waits for its end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _files_and_ports(plan: Plan, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    return (*model_findings(plan, environment), *_port_findings(plan), *_kernel_findings(plan, environment))


def _kernel_findings(plan: Plan, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    if any(cache.variable == "AITER_JIT_DIR" and cache.place for cache in plan.caches):
        return ()  # in our own trees, which are begun with what the image has
    directory = environment.get("AITER_JIT_DIR")
    found = hidden_modules_finding(prebuilt_modules(plan.engine.python), Path(directory) if directory else None)
    return () if found is None else (found,)


def _port_findings(plan: Plan) -> tuple[Finding, ...]:
    finding = port_finding(plan.engine_host, plan.engine_port, "the engine", "engine.port")
    return () if finding is None else (finding,)


def model_findings(plan: Plan, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return what is wrong with the model's files, as far as they are on this machine."""
    model = plan.meaning.get("model_path")
    if not model or plan.meaning.get("load_format") == ("dummy",):
        return ()
    revision = plan.meaning.get("revision")
    hub = hub_directory(environment, plan.node.home)
    location = locate(model[0], hub=hub, revision=revision[0] if revision else None)
    finding = location_finding(location)
    if location.directory is None:
        return () if finding is None else (finding,)
    found = checkpoint.findings(
        checkpoint.inspect(location.directory),
        chat_template_given="chat_template" in plan.meaning,
        tokenizer_given="tokenizer_path" in plan.meaning,
        downloadable=location.source is ModelSource.SNAPSHOT,
    )
    return found if finding is None else (finding, *found)


def _remember(store: FlagStore, table: FlagTable, python: Path) -> tuple[str, ...]:
    """Store the engine's flags for the next run; say so where that fails, since nothing depends on it."""
    try:
        path = store.save(table, python)
    except OSError as error:
        return (f"the engine's flags could not be stored and will be asked for again: {error}",)
    return (f"the flags of SGLang {table.version} are stored in {path}",) if path else ()
