"""From a command line to a plan: settings, node and engine, read once."""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from entrypoint.cli.model_facts import memory_facts
from entrypoint.cli.parse import Call
from entrypoint.engine.flag_store import FlagStore
from entrypoint.engine.flags import FlagTable
from entrypoint.engine.installation import find_python, installed_version
from entrypoint.engine.stack import read_stack
from entrypoint.node import facts
from entrypoint.node.facts import NodeFacts
from entrypoint.plan.caches import shared_root
from entrypoint.plan.plan import EngineFacts, Plan, make_plan
from entrypoint.settings.layers import ResolvedSettings, load
from entrypoint.settings.redaction import Masker
from entrypoint.settings.secrets import Secrets, read_secrets

_SECRET_NAME = re.compile(r"(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_FLAG = re.compile(r"--(?:ad|ap|[\w-]*password)[\w-]*")
"""The engine's flags with secrets: ``--api-key``, ``--admin-api-key``, however cut short, and passwords (0.5.23)."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with what it was made from.

    Attributes:
        plan: The plan.
        secrets: The keys.
        masker: Removes them from whatever is shown.
        store: Where lists of the engine's flags are kept.
    """

    plan: Plan
    secrets: Secrets
    masker: Masker
    store: FlagStore

    def replan(self, table: FlagTable) -> Plan:
        """Return the plan made again with the engine's own flags."""
        engine = replace(self.plan.engine, flags=table)
        return make_plan(
            self.plan.resolved,
            self.plan.node,
            engine,
            self.secrets,
            run_name=self.plan.run_directory.name,
            memory=self.plan.memory.facts,
        )


def prepare(call: Call, environ: Mapping[str, str] = os.environ) -> Prepared:
    """Read everything that a plan needs, and make it.

    Raises:
        SuperviseError: The settings cannot be understood.
    """
    resolved = load(
        profile=call.options.profile,
        config_files=call.options.config,
        overrides=call.overrides,
        extra_arguments=call.extra,
        environ=environ,
        cwd=facts.working_directory(),
    )
    return prepare_resolved(resolved, environ)


def prepare_resolved(resolved: ResolvedSettings, environ: Mapping[str, str]) -> Prepared:
    """Make the plan of settings that are resolved already."""
    settings = resolved.settings
    node = facts.read(environ)
    secrets = read_secrets(settings, environ)
    store = FlagStore(directory=shared_root(settings.caches, node) / "flags")
    memory = memory_facts(settings, environ, node.home)
    engine = _engine(resolved, environ, store)
    plan = make_plan(resolved, node, engine, secrets, run_name=run_name(node), memory=memory)
    masker = Masker([*secrets.values(), *_secrets_in_environment(plan), *_secrets_in_arguments(plan)])
    return Prepared(plan, secrets, masker, store)


def _secrets_in_environment(plan: Plan) -> list[str]:
    """Return what the engine's variables hold that are secrets by their names, and what they held before."""
    variables = [variable for variable in plan.environment if _SECRET_NAME.search(variable.name)]
    values = [value for variable in variables for value in (variable.value, variable.previous)]
    return [value for value in values if value]


def _secrets_in_arguments(plan: Plan) -> list[str]:
    """Return the secrets that stand in the command line, where they should not: a refusal must not repeat them."""
    attached = [word.partition("=") for word in plan.argv]
    apart = [(flag, "", value) for flag, value in pairwise(plan.argv) if not value.startswith("--")]
    return [value for flag, _, value in (*attached, *apart) if _SECRET_FLAG.fullmatch(flag)]


def _engine(resolved: ResolvedSettings, environ: Mapping[str, str], store: FlagStore) -> EngineFacts:
    python_path = resolved.settings.engine.env.get("PYTHONPATH", environ.get("PYTHONPATH", ""))
    python = find_python(resolved.settings.engine.python, path_env=environ.get("PATH", ""), python_path_env=python_path)
    version = installed_version(python, python_path_env=python_path)
    table = store.load(version, python).table if version else None
    return EngineFacts(python, version, table, read_stack(python, python_path))


def run_name(node: NodeFacts) -> str:
    """Return the name of a run's directory: job, step and restart count, or the time where there is no Slurm."""
    step = node.step
    if step is None:
        return f"local.{time.strftime('%Y%m%dT%H%M%S')}.{os.getpid()}"
    return f"{step.job_id}.{step.step_id}.{step.restart_count}"
