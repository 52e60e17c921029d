"""The schema: every setting with its type, unit, default and a sentence.

A field's description is its documentation: the reference page is generated from it. Engine settings that
become a flag may be ``""``, which omits the flag so that the model's own choice decides.
"""

import os
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

Omitted = Literal[""]
"""The value that leaves an engine flag out, although a weaker layer set it."""

Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
"""A path of this machine; a leading ~ is the caller's home."""
UserText = Annotated[str, AfterValidator(os.path.expanduser)]
"""Text that may be a path of this machine."""
FlagValue = bool | int | float | str | list[str | int | float] | dict[str, Any]
"""What a flag of the engine can be set to: true is a bare flag, false or "" leaves it out."""


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the one type itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


class Section(BaseModel):
    """A table of the settings: frozen, and closed against unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _read_as_meant(cls, value: Any, info: ValidationInfo) -> Any:
        """Let ``""`` unset an optional value, which TOML cannot say otherwise, and take no truth for a number."""
        members = alternatives(cls.model_fields[info.field_name or ""].annotation)
        if value == "" and NoneType in members and Omitted not in members:
            return None
        if isinstance(value, bool) and bool not in members:
            raise ValueError("a truth value where another type is expected")
        return value


class ModelSettings(Section):
    """Which model is served, and under which name."""

    path: UserText | None = Field(None, description="Hub id or directory of the checkpoint.")
    served_name: str | None = Field(None, description="Name that clients use; by default the path.")
    revision: str | None = Field(None, description="Branch, tag or commit of a hub model.")
    context_length: Annotated[int, Field(gt=0)] | Omitted | None = Field(
        None, description="Longest prompt plus answer, in tokens; by default the model's own limit."
    )
    trust_remote_code: bool = Field(False, description="Run code that ships with the checkpoint.")
    hf_token_file: UserPath | None = Field(
        None, description="File that holds the Hugging Face token; HF_TOKEN of the environment serves as well."
    )


class EngineSettings(Section):
    """How SGLang is started: what most runs set by name, and any other flag in ``args``."""

    python: UserPath | None = Field(
        None,
        description="Python interpreter that can import sglang; by default /opt/venv/bin/python, else python3 of PATH.",
    )
    host: str = Field("127.0.0.1", description="Address on which the engine listens; 0.0.0.0 lets other nodes in.")
    port: Port = Field(30000, description="Port on which clients reach the engine.")
    api_key: SecretStr | None = Field(
        None, description="Key that clients must send; better given as api_key_file or SUPERVISE_ENGINE__API_KEY."
    )
    api_key_file: UserPath | None = Field(None, description="File that holds the key that clients must send.")
    admin_api_key: SecretStr | None = Field(None, description="Key for the engine's administrative calls.")
    admin_api_key_file: UserPath | None = Field(
        None, description="File that holds the key for the engine's administrative calls."
    )
    access: Literal["key", "open"] = Field(
        "key", description="Beyond loopback without a key of yours: 'key' generates one, 'open' lets everybody in."
    )
    device: str | Omitted | None = Field(None, description="Device of the engine, such as cpu; by default detected.")
    mem_fraction_static: Annotated[float, Field(gt=0, le=1)] | Omitted | None = Field(
        None, description="Share of the memory available before loading that weights and KV pool may take together."
    )
    attention_backend: str | Omitted | None = Field(
        None, description="Attention kernels by name; '' leaves the choice to the model."
    )
    reasoning_parser: str | Omitted | None = Field(
        "auto", description="Parser that moves thoughts to reasoning_content; 'auto' reads the chat template."
    )
    tool_call_parser: str | Omitted | None = Field(
        "auto", description="Parser that turns calls into tool_calls; 'auto' reads the chat template."
    )
    watchdog_timeout_s: Annotated[int, Field(gt=0)] | Omitted = Field(
        1800, description="Seconds that one step of the engine may take before its own watchdog ends it."
    )
    max_running_requests: Annotated[int, Field(gt=0)] | Omitted = Field(
        128, description="Requests that run at once; caps concurrency, reserves no memory."
    )
    enable_metrics: bool = Field(True, description="Serve Prometheus metrics at the engine's /metrics.")
    enable_cache_report: bool = Field(
        True,
        description="Report cached prompt tokens in each answer's usage, the sign of a KV pool large enough.",
    )
    args: dict[str, FlagValue] = Field(
        default_factory=dict, description="Any other flag of the engine by its long name, without the dashes."
    )
    env: dict[str, str] = Field(
        default_factory=dict, description="Any other environment variable of the engine; '' unsets it."
    )


class TopologySettings(Section):
    """How the model is cut across devices."""

    tensor_parallel: Annotated[int, Field(gt=0)] | None = Field(
        None, description="Devices that share each layer (tensor parallel size)."
    )
    pipeline_parallel: Annotated[int, Field(gt=0)] | None = Field(
        None, description="Stages that layers are cut into (pipeline parallel size)."
    )
    nodes_per_replica: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="Nodes that one server spans; by default as many as its devices need. A step may hold several.",
    )
    dist_port: Port = Field(29500, description="Port of the first node at which the ranks of a server meet.")


class WorkloadSettings(Section):
    """What the server is for: with it, the KV pool can be judged before the start."""

    conversations: Annotated[int, Field(gt=0)] | None = Field(
        None, description="Conversations that run at once and go on growing."
    )
    largest_prompt_tokens: Annotated[int, Field(gt=0)] | None = Field(
        None, description="Largest prompt that one of them reaches, in tokens."
    )
    clients: Annotated[int, Field(gt=0)] | None = Field(None, description="Users who share this server.")


class CacheSettings(Section):
    """Where compiled kernels and downloaded models stay between runs."""

    shared: UserPath | None = Field(
        None, description="Persistent directory for caches; by default ~/.cache/supervise of the calling user."
    )
    local: UserPath | None = Field(
        None,
        description="Node-local directory in which engines write their caches, the same for each job; by default "
        "/tmp/supervise-UID.",
    )
    image: UserPath = Field(
        Path("/opt/supervise/caches"),
        description="Caches that the image was built with, from which a new shared tree is begun.",
    )
    hf_home: UserPath | None = Field(
        None,
        description="Hugging Face home with the model hub; by default HF_HOME, else ~/.cache/huggingface.",
    )
    key: str = Field(
        "auto",
        description="Name of the software that caches are for; 'auto' uses the image's build, or its versions.",
    )
    publish_every_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        1800,
        description="Seconds between two looks for what a serving engine has built, to keep it for other jobs; with 0 "
        "it is looked for only when the engine is ready and when it ends.",
    )


class WarmSettings(Section):
    """Kernels built before the engine starts, where its watchdog cannot see it."""

    enabled: bool = Field(True, description="Build what the engine is known to need before it starts.")
    timeout_s: Seconds = Field(900, description="Seconds that one step may take before its builder is ended.")
    on_failure: Literal["warn", "stop"] = Field(
        "warn", description="'warn' leaves what could not be built to the engine; 'stop' ends the run."
    )
    workers: Annotated[int, Field(gt=0)] | None = Field(
        None, description="Steps that are built at once; by default one for each GPU, within processors and memory."
    )
    steps: UserPath | None = Field(None, description="File with steps of your own: kernels that your engine builds.")


class NetworkSettings(Section):
    """The fabric between nodes."""

    require: bool = Field(True, description="Refuse a server on several nodes whose collectives would run over TCP.")
    gdr_level: int | None = Field(
        0, description="NCCL_NET_GDR_LEVEL on several nodes; 0 turns GPU-direct RDMA off, which sums wrongly here."
    )


class ProveSettings(Section):
    """The self-check that stands between a loaded server and ready."""

    enabled: bool = Field(True, description="Prove tool calls and reasoning before saying ready.")
    timeout_s: Seconds = Field(900, description="Seconds that the whole self-check may take.")
    max_tokens: Annotated[int, Field(gt=0)] = Field(
        2048, description="Answer budget of each request in tokens; a thinking model needs room to think."
    )
    tools: bool = Field(True, description="The model can call tools: require it.")
    reasoning: bool = Field(True, description="The model thinks before it answers: require the thought apart.")
    on_failure: Literal["stop", "hold"] = Field(
        "stop", description="'stop' ends the run; 'hold' keeps the loaded server, not ready, for another try."
    )
    every_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        1800, description="Seconds between canary checks while serving and idle; 0 turns them off."
    )


class HealthSettings(Section):
    """The supervisor's own HTTP endpoints."""

    host: str = Field("127.0.0.1", description="Address of the health endpoints; beyond loopback they want a token.")
    port: Port = Field(30900, description="Port of the health endpoints.")


class DrainSettings(Section):
    """How a run is taken down."""

    timeout_s: Seconds = Field(
        25, description="Seconds from the request to stop until everything is gone; Slurm's KillWait is 30 by default."
    )
    release_start_s: Seconds = Field(
        6,
        description="Seconds that an idle engine gets to begin its own release before it is killed; it looks every 5.",
    )


class WatchSettings(Section):
    """What is watched while the engine runs: memory, progress, and its log."""

    memory_every_s: Seconds = Field(1, description="Seconds between two looks at memory.")
    memory_floor_gib: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        8,
        description="Memory left at which the end is near; at most 5 % where less than 64 GiB may be used at all.",
    )
    memory_warn_s: Seconds = Field(
        180, description="Seconds before memory falls to its floor, at its present trend, at which a warning is given."
    )
    on_low_memory: Literal["warn", "drain"] = Field(
        "warn", description="'warn' says so and goes on; 'drain' finishes the requests in flight and ends the run."
    )
    stall_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        300,
        description="Seconds in which requests run and no token comes before a serving engine is called hung; 0 turns "
        "this off.",
    )
    signatures: UserPath | None = Field(
        None, description="File with rows of your own for what an engine's log can mean."
    )


class RestartSettings(Section):
    """What happens when a server that was ready dies."""

    max: Annotated[int, Field(ge=0)] = Field(2, description="Restarts in place within the window.")
    window_s: Seconds = Field(3600, description="Seconds after which a restart no longer counts.")
    backoff_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        10, description="Seconds before the second restart of a window, doubled from then on; the first is immediate."
    )


class DeadlineSettings(Section):
    """How long each phase of a start may take; log progress extends a phase."""

    check_s: Seconds = Field(120, description="Preflight.")
    warm_s: Seconds = Field(3600, description="Caches and kernel builds.")
    start_s: Seconds = Field(600, description="From the engine's start to the first sign of loading.")
    load_s: Seconds = Field(3600, description="Weights into memory.")
    capture_s: Seconds = Field(1800, description="Graph capture.")
    engine_up_s: Seconds = Field(900, description="The engine's own warm-up, from its open port to ready.")
    stall_s: Seconds = Field(
        600, description="A phase past its deadline is stalled when nothing has progressed for this long."
    )
    ready_s: Seconds = Field(10800, description="From the engine's start to ready, whatever progress is seen.")


class LogSettings(Section):
    """Where a run writes what happened."""

    dir: UserPath = Field(Path("logs"), description="Directory under which each run makes its own, mode 0700.")
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="Events on stderr: 'console' for people, 'json' for machines, 'auto' by terminal."
    )
    max_bytes: Annotated[int, Field(ge=1 << 16)] = Field(
        256 << 20, description="Size of an engine log in bytes at which it is set aside; one older part is kept."
    )


class SiteSettings(Section):
    """Which cluster this is: its partition, paths and fabric are data."""

    name: str | None = Field(
        None, description="Name of a packaged site, or a TOML file of your own; by default Slurm's name of the cluster."
    )


class RuleSettings(Section):
    """Which findings are known and accepted."""

    ignore: frozenset[str] = Field(frozenset(), description="Identifiers of rules whose findings are silenced.")


class Settings(Section):
    """Everything that a user can set."""

    profile: str | None = Field(None, description="Name of the packaged profile that everything else overrides.")
    model: ModelSettings = Field(default_factory=ModelSettings, description=ModelSettings.__doc__)
    engine: EngineSettings = Field(default_factory=EngineSettings, description=EngineSettings.__doc__)
    topology: TopologySettings = Field(default_factory=TopologySettings, description=TopologySettings.__doc__)
    workload: WorkloadSettings = Field(default_factory=WorkloadSettings, description=WorkloadSettings.__doc__)
    caches: CacheSettings = Field(default_factory=CacheSettings, description=CacheSettings.__doc__)
    warm: WarmSettings = Field(default_factory=WarmSettings, description=WarmSettings.__doc__)
    network: NetworkSettings = Field(default_factory=NetworkSettings, description=NetworkSettings.__doc__)
    prove: ProveSettings = Field(default_factory=ProveSettings, description=ProveSettings.__doc__)
    health: HealthSettings = Field(default_factory=HealthSettings, description=HealthSettings.__doc__)
    drain: DrainSettings = Field(default_factory=DrainSettings, description=DrainSettings.__doc__)
    watch: WatchSettings = Field(default_factory=WatchSettings, description=WatchSettings.__doc__)
    restart: RestartSettings = Field(default_factory=RestartSettings, description=RestartSettings.__doc__)
    deadlines: DeadlineSettings = Field(default_factory=DeadlineSettings, description=DeadlineSettings.__doc__)
    logs: LogSettings = Field(default_factory=LogSettings, description=LogSettings.__doc__)
    site: SiteSettings = Field(default_factory=SiteSettings, description=SiteSettings.__doc__)
    rules: RuleSettings = Field(default_factory=RuleSettings, description=RuleSettings.__doc__)
