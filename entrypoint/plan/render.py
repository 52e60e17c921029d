"""A plan in words: as a command for a shell, and as data for programs."""

import shlex
from typing import Any

from entrypoint import __version__
from entrypoint.findings import Finding
from entrypoint.plan.budget import render as budget
from entrypoint.plan.plan import Plan
from entrypoint.settings.redaction import Masker


def shell(plan: Plan, masker: Masker) -> str:
    """Return the command of this rank with its environment, quoted for a POSIX shell and runnable as it is.

    Args:
        plan: The plan.
        masker: Removes secrets; a command that holds one is not runnable, which a comment then says.
    """
    unset = [f"-u {shlex.quote(variable.name)}" for variable in plan.environment if variable.value is None]
    assignments = [
        shlex.quote(f"{variable.name}={variable.value}") for variable in plan.environment if variable.value is not None
    ]
    words = [shlex.quote(word) for word in plan.argv]
    lines = ["env " + " ".join(unset) if unset else "env", *assignments, " ".join(words[:3]), *_flag_lines(words[3:])]
    text = " \\\n  ".join(lines)
    masked = masker.mask_text(text)
    comments = []
    if plan.key_file is not None:
        comments.append(f"# {plan.key_file} is written when the run starts, mode 0600: it holds the engine's keys")
    if plan.settings.model.hf_token_file is not None:
        comments.append(f"# HF_TOKEN is read from {plan.settings.model.hf_token_file} when the run starts")
    if masked != text:
        comments.append("# *** stands for a secret")
    return "\n".join([*comments, masked]) + "\n"


def _flag_lines(words: list[str]) -> list[str]:
    """Return one line per flag with its values."""
    lines: list[str] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines


def data(plan: Plan, masker: Masker) -> dict[str, Any]:
    """Return everything of a plan as JSON data, secrets masked."""
    step = plan.node.step
    result = {
        "version": __version__,
        "rank": plan.rank,
        "host": plan.node.host_name,
        "nodes": plan.node.nodes,
        "replica": {"index": plan.replica.index, "rank": plan.replica.rank, "nodes": plan.replica.nodes},
        "slurm": None if step is None else {"job": step.job_id, "step": step.step_id, "node": step.node_name},
        "engine": {
            "python": str(plan.engine.python),
            "version": plan.engine.version,
            "flags_checked": plan.engine.flags is not None,
            "url": plan.client_url,
        },
        "model": plan.served_name,
        "argv": list(plan.argv),
        "environment": [
            {
                "name": variable.name,
                "value": variable.value,
                "reason": variable.reason,
                "treatment": variable.treatment,
                "previous": variable.previous,
            }
            for variable in plan.environment
        ],
        "cache_key": _cache_key(plan),
        "cache_trees": {
            "image": str(plan.trees.image),
            "shared": str(plan.trees.shared),
            "local": str(plan.trees.local),
        },
        "caches": [
            {
                "variable": cache.variable,
                "path": str(cache.path),
                "layer": cache.layer,
                "key": str(plan.trees.key.directory) if cache.place else None,
                "kept": str(plan.trees.shared / cache.place) if cache.entries else None,
                "keeping": cache.keeping,
                "reason": cache.reason,
            }
            for cache in plan.caches
        ],
        "memory": budget.data(plan.memory),
        "run_directory": str(plan.run_directory),
        "findings": [finding_data(finding) for finding in plan.findings],
        "settings": plan.settings.model_dump(mode="json"),
        "provenance": {
            name: {"layer": origin.layer, "source": origin.source} for name, origin in plan.resolved.origins.items()
        },
        "files": [str(path) for path in plan.resolved.files],
    }
    masked: dict[str, Any] = masker.mask_value(result)
    return masked


def _cache_key(plan: Plan) -> dict[str, str]:
    key = plan.trees.key
    return {"software": key.software, "architecture": key.architecture, "family": key.family}


def finding_data(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON data."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "remedy": finding.remedy,
        "setting": finding.setting,
    }
