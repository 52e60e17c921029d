"""``supervise warm``: caches and kernels alone, and the removal of those that nobody needs any more."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from entrypoint.cli.findings import table
from entrypoint.cli.parse import Call
from entrypoint.cli.prepare import Prepared, prepare
from entrypoint.cli.streams import complain
from entrypoint.findings import Finding, Severity, errors, without_ignored
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.plan.caches import local_root, shared_root
from entrypoint.plan.plan import Plan
from entrypoint.plan.render import finding_data
from entrypoint.verdict.wording import size
from entrypoint.warm.jit.result import GOOD
from entrypoint.warm.prune import Prunable, Pruned, prune
from entrypoint.warm.warmup import Warmed, WarmHooks, step_data, warm

DAY_S = 86_400.0
ShowProgress = Callable[[str, int, int], None]


def perform(call: Call) -> int:
    """Warm what a run with the same settings would need, or prune; return the exit code."""
    prepared = prepare(call)
    if call.options.prune is not None:
        return _prune(prepared.plan, call.options.prune * DAY_S, as_json=call.options.format == "json")
    warmed = asyncio.run(_warm(prepared))
    try:
        findings = without_ignored(warmed.findings, prepared.plan.settings.rules.ignore)
        _show(warmed, findings, as_json=call.options.format == "json")
    finally:
        warmed.close()
    refusing = errors(findings)
    if refusing:
        return int(refusing[0].code)
    unbuilt = any(finding.rule == "warm-failed" and finding.severity is not Severity.NOTE for finding in findings)
    return int(ExitCode.NODE_UNFIT) if unbuilt else 0


async def _warm(prepared: Prepared) -> Warmed:
    """Warm, and show how far it is.

    Raises:
        SuperviseError: It took too long, or the file of steps cannot be used.
    """
    limit_s = prepared.plan.settings.deadlines.warm_s
    with _bar() as show:
        hooks = WarmHooks(_say, show)
        try:
            async with asyncio.timeout(limit_s):
                return await warm(
                    prepared.plan, lambda plan: plan.engine_environment(prepared.secrets), hooks, again=True
                )
        except TimeoutError as error:
            raise SuperviseError(
                f"The caches were not warm within {limit_s:g} s.",
                remedy="What was built so far stays. Raise deadlines.warm_s, or see which step takes so long.",
                code=ExitCode.RETRY_ELSEWHERE,
            ) from error


def _say(event: str, fields: Mapping[str, object]) -> None:
    """Tell what happened, on one line."""
    told = "  ".join(f"{name}={value}" for name, value in fields.items() if value not in ("", ()) and name != "output")
    complain(f"supervise: {event}  {told}\n")


@contextmanager
def _bar() -> Iterator[ShowProgress]:
    """Show progress as a bar where stderr is a terminal; elsewhere what happens is told line by line."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("warming", total=None)

        def show(text: str, done: int, total: int) -> None:
            progress.update(task, description=text, completed=done, total=total or None)

        yield show


def _show(warmed: Warmed, findings: tuple[Finding, ...], *, as_json: bool) -> None:
    key = str(warmed.plan.trees.key.directory)
    if as_json:
        data = {
            "summary": warmed.summary,
            "key": key,
            "vouched": warmed.vouched,
            "steps": [step_data(each) for each in warmed.results],
            "findings": [finding_data(finding) for finding in findings],
        }
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return
    for each in warmed.results:
        why = f": {each.reason}" if each.reason else ""
        sys.stdout.write(f"{each.outcome.value:10} {each.seconds:7.1f} s  {each.step.name}{why}\n")
        if each.outcome not in GOOD:
            sys.stdout.writelines(f"    {line}\n" for line in each.output)
    sys.stdout.write(f"{key}: {warmed.summary}\n")
    complain(table(findings, sys.stderr))


def _prune(plan: Plan, min_age_s: float, *, as_json: bool) -> int:
    roots = dict.fromkeys(find(plan.settings.caches, plan.node) for find in (shared_root, local_root))
    results = {
        root: prune(root, plan.trees.key, now_unix_s=time.time(), min_age_s=min_age_s)
        for root in roots
        if root.is_dir()
    }
    if as_json:
        sys.stdout.write(json.dumps({str(root): _pruned_data(each) for root, each in results.items()}, indent=2) + "\n")
    else:
        lines = [line for root, each in results.items() for line in _pruned_lines(root, each)]
        sys.stdout.write("".join(lines) or "nothing is kept for other software\n")
    failed = any(each.failures for each in results.values())
    return int(ExitCode.DIRECTORY_UNUSABLE) if failed else 0


def _pruned_lines(root: Path, pruned: Pruned) -> Iterator[str]:
    for word, keys in (("removed", pruned.removed), ("in use", pruned.in_use), ("used lately", pruned.recent)):
        for key in keys:
            yield f"{word:12} {size(key.size_bytes):>10}  {key.path}\n"
    for path, reason in pruned.failures:
        yield f"{'not removed':12} {path}: {reason}\n"
    if not (pruned.removed or pruned.in_use or pruned.recent or pruned.failures):
        yield f"nothing is kept for other software in {root}\n"


def _pruned_data(pruned: Pruned) -> dict[str, object]:
    return {
        "removed": [_key_data(key) for key in pruned.removed],
        "in_use": [_key_data(key) for key in pruned.in_use],
        "used_lately": [_key_data(key) for key in pruned.recent],
        "failed": [{"path": str(path), "reason": reason} for path, reason in pruned.failures],
    }


def _key_data(key: Prunable) -> dict[str, object]:
    return {"path": str(key.path), "bytes": key.size_bytes, "last_use_unix_s": key.last_use_unix_s}
