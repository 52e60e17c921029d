"""The plan: everything that a run will do, decided before it does anything.

``make_plan`` is a pure function: the same settings, node and engine give the same plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from entrypoint.engine.flags import FlagTable
from entrypoint.engine.stack import EngineStack
from entrypoint.findings import Finding, without_ignored
from entrypoint.node.facts import NodeFacts
from entrypoint.plan import environment
from entrypoint.plan.arguments import arguments, command, meaning, words
from entrypoint.plan.budget.facts import MemoryFacts, MemoryPlan, memory_plan, wishes_of
from entrypoint.plan.cache_key import cache_key
from entrypoint.plan.caches import CacheDirectory, CacheTrees, layout, trees
from entrypoint.plan.families import DERATE
from entrypoint.plan.rules.book import judge
from entrypoint.plan.rules.memory import is_derated
from entrypoint.plan.rules.rule import LOOPBACK_HOSTS, RuleInput, is_port
from entrypoint.plan.topology import Replica, gang_arguments, replica_of
from entrypoint.settings.layers import ResolvedSettings
from entrypoint.settings.schema import Settings
from entrypoint.settings.secrets import Secrets

LOOPBACK_HOST = "127.0.0.1"
"""SGLang's own default (0.5.23)."""
KEY_FILE = "engine-keys.yaml"
"""Name of the private file in the run directory through which the engine gets its keys."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Which engine is at hand.

    Attributes:
        python: Its interpreter.
        version: SGLang's version, where files tell it.
        flags: Its own flags, where they are stored.
        stack: What it stands on.
    """

    python: Path
    version: str | None
    flags: FlagTable | None
    stack: EngineStack = field(default_factory=EngineStack)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do on this rank.

    Attributes:
        resolved: The settings with their layers.
        node: The machine.
        engine: The engine.
        argv: The engine's command.
        environment: What is changed in the engine's environment, each with its reason.
        caches: The cache directories.
        trees: The trees that they lie in.
        run_directory: Where the run writes.
        key_file: The private file with the engine's keys, when it has any.
        generate_key: The run makes up a key, since the engine listens beyond loopback without one.
        findings: What the rules found, the ignored ones left out.
        meaning: What the engine's arguments set, by destination.
        memory: The memory budget for several numbers of nodes.
        replica: The server that this node belongs to.
    """

    resolved: ResolvedSettings
    node: NodeFacts
    engine: EngineFacts
    argv: tuple[str, ...]
    environment: tuple[environment.Variable, ...]
    caches: tuple[CacheDirectory, ...]
    trees: CacheTrees
    run_directory: Path
    key_file: Path | None
    generate_key: bool
    findings: tuple[Finding, ...]
    meaning: Mapping[str, tuple[str, ...]]
    memory: MemoryPlan
    replica: Replica

    @property
    def settings(self) -> Settings:
        """What the user wants."""
        return self.resolved.settings

    @property
    def log_path(self) -> Path:
        """Where the engine's output goes."""
        return self.run_directory / f"server-{self.rank}.log"

    @property
    def rank(self) -> int:
        """Rank of this node."""
        return self.node.rank

    @property
    def served_name(self) -> str:
        """The name that clients use for the model."""
        name = self.meaning.get("served_model_name") or self.meaning.get("model_path") or ("default",)
        return name[0]

    @property
    def engine_port(self) -> int:
        """The port that clients use."""
        port = self.meaning.get("port", ("",))[0]
        return int(port) if is_port(port) else self.settings.engine.port

    @property
    def engine_host(self) -> str:
        """The address that the engine binds."""
        return _host(self.meaning)

    @property
    def client_host(self) -> str:
        """The name under which clients of other machines reach the engine; loopback where it binds only that."""
        return self.node.host_name if self.engine_host in {"0.0.0.0", "::"} else self.engine_host  # noqa: S104  # compared, not bound

    @property
    def local_host(self) -> str:
        """The address under which this machine reaches the engine."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.engine_host, self.engine_host)  # noqa: S104  # see above

    @property
    def local_url(self) -> str:
        """Base URL under which this machine reaches the engine."""
        return base_url(self.local_host, self.engine_port)

    @property
    def client_url(self) -> str:
        """Base URL of the OpenAI-compatible API for clients."""
        return f"{base_url(self.client_host, self.engine_port)}/v1"

    def with_caches_at(self, places: Mapping[str, Path]) -> "Plan":
        """Return the plan with some caches elsewhere: nothing that is built there is kept.

        Args:
            places: The directory by variable.
        """
        moved = (
            _moved(cache, places[cache.variable], "its own place is locked") if cache.variable in places else cache
            for cache in self.caches
        )
        variables = (
            replace(variable, value=str(places[variable.name])) if variable.name in places else variable
            for variable in self.environment
        )
        return replace(self, caches=tuple(moved), environment=tuple(variables))

    def engine_environment(self, secrets: Secrets) -> Mapping[str, str]:
        """Return the engine's whole environment, its token included."""
        result = dict(self.node.environ)
        for variable in self.environment:
            if variable.value is None:
                result.pop(variable.name, None)
            else:
                result[variable.name] = variable.value
        if secrets.hf_token is not None:
            result["HF_TOKEN"] = secrets.hf_token.get_secret_value()
        return MappingProxyType(result)


def base_url(host: str, port: int) -> str:
    """Return the URL of a server; an IPv6 address stands in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_plan(
    resolved: ResolvedSettings,
    node: NodeFacts,
    engine: EngineFacts,
    secrets: Secrets,
    *,
    run_name: str,
    memory: MemoryFacts | None = None,
) -> Plan:
    """Decide what a run will do.

    Args:
        resolved: The settings with their layers.
        node: The machine.
        engine: The engine at hand.
        secrets: Which keys there are; their values do not enter the plan.
        run_name: Name of the run's directory.
        memory: What is known of the model's needs and of the node's memory; by default nothing.
    """
    memory = memory or MemoryFacts()
    settings = resolved.settings
    replica = replica_of(settings.topology, node.step, node.environ)
    flags = arguments(settings, engine.flags, gang_arguments(settings.topology, replica))
    argv = words(flags, resolved.extra_arguments)
    meant = meaning(argv, engine.flags)
    given_key = secrets.api_key is not None or secrets.admin_api_key is not None
    open_to_others = _host(meant) not in LOOPBACK_HOSTS
    generate_key = open_to_others and secrets.api_key is None and settings.engine.access == "key"
    run_directory = (node.cwd / settings.logs.dir).absolute() / run_name
    key_file = run_directory / KEY_FILE if given_key or generate_key else None
    models = meant.get("model_path", ())
    key = cache_key(settings.caches.key, engine.stack, node.architecture, models[0] if models else "")
    where = trees(settings.caches, node, key)
    caches = layout(settings.caches, node, where)
    variables, refused = environment.decide(
        _environment_rows(settings, node, replica, caches, meant), environ=node.environ, wishes=settings.engine.env
    )
    judged = RuleInput(
        settings=settings,
        flags=flags,
        extra=resolved.extra_arguments,
        meaning=meant,
        table=engine.flags,
        engine_version=engine.version,
        step=node.step,
        nodes=replica.nodes,
        needs_key_file=key_file is not None,
        clients_need_key=generate_key or secrets.api_key is not None,
        environ=node.environ,
        environment={variable.name: variable.value for variable in variables},
        profile=resolved.profile,
    )
    derate = DERATE if is_derated(judged) else 1.0
    wishes = wishes_of(meant, settings.workload, derate)
    budget = memory_plan(memory, wishes, nodes=_nodes_meant(resolved, node, replica), on_cpu=judged.on_cpu)
    judged = replace(judged, memory=budget)
    return Plan(
        resolved=resolved,
        node=node,
        engine=engine,
        argv=command(engine.python, argv, key_file),
        environment=variables,
        caches=_as_decided(caches, variables),
        trees=where,
        run_directory=run_directory,
        key_file=key_file,
        generate_key=generate_key,
        findings=without_ignored((*judge(judged), *refused), settings.rules.ignore),
        meaning=meant,
        memory=budget,
        replica=replica,
    )


def _nodes_meant(resolved: ResolvedSettings, node: NodeFacts, replica: Replica) -> int:
    """Return for how many nodes memory is planned: the server's, and before there is a step those of the profile."""
    return resolved.profile.nodes if node.step is None and resolved.profile else replica.nodes


def _host(meant: Mapping[str, tuple[str, ...]]) -> str:
    """Return the address that the engine binds; without one it keeps to loopback."""
    return meant.get("host", ("",))[0] or LOOPBACK_HOST


def _environment_rows(
    settings: Settings,
    node: NodeFacts,
    replica: Replica,
    caches: tuple[CacheDirectory, ...],
    meant: Mapping[str, tuple[str, ...]],
) -> tuple[environment.VariableRule, ...]:
    models = [place for name in _MODELS for place in meant.get(name, ())]
    general = environment.rules_for(
        nodes=replica.nodes,
        gdr_level=settings.network.gdr_level,
        model_is_local=bool(models) and all(_is_local(place) for place in models),
        environ=node.environ,
    )
    return (*general, *environment.cache_rules(caches), environment.no_proxy(node.environ, [node.host_name]))


_MODELS = ("model_path", "tokenizer_path", "speculative_draft_model_path", "lora_paths")
"""What an engine may look up at the hub, by destination of its flags."""


def _is_local(place: str) -> bool:
    """Say whether a text is a path for certain; one such as ``owner/name`` may be a hub id."""
    return place.startswith(("/", "./", "../"))


def _as_decided(
    caches: tuple[CacheDirectory, ...], variables: tuple[environment.Variable, ...]
) -> tuple[CacheDirectory, ...]:
    """Return the cache directories as ``[engine.env]`` left them; one that it moved is the user's own to keep."""
    values = {variable.name: variable.value for variable in variables}
    decided = ((cache, values.get(cache.variable)) for cache in caches)
    return tuple(
        cache if value == str(cache.path) else _moved(cache, Path(value), "[engine.env] has moved it")
        for cache, value in decided
        if value is not None
    )


def _moved(cache: CacheDirectory, path: Path, why: str) -> CacheDirectory:
    return replace(cache, path=path, root=path, place="", entries=(), keeping=f"nothing is kept: {why}")
