"""Where each cache lies: which variable points where, in which layer, and why."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from entrypoint.node.facts import NodeFacts
from entrypoint.settings.schema import CacheSettings


class CacheLayer(StrEnum):
    """How a cache directory may be used."""

    SHARED = "shared"
    """Persistent, may lie on a network file system."""
    LOCAL = "local"
    """On this node; network file systems break it."""
    HUB = "hub"
    """The Hugging Face home: large, mostly read."""


@dataclass(frozen=True, slots=True)
class CacheRule:
    """One cache variable: the layer its directory lies in, the place below it, and why it is set.

    Sources of the reasons: the code of aiter, Triton and SGLang 0.5.23 and what was measured with them on MI300A.
    """

    variable: str
    layer: CacheLayer
    place: str
    reason: str


CACHE_RULES = (
    CacheRule(
        "AITER_JIT_DIR",
        CacheLayer.SHARED,
        "aiter/jit",
        "aiter builds its modules on first use; cold, that outlives the engine's watchdog",
    ),
    CacheRule(
        "AITER_ROOT_DIR",
        CacheLayer.SHARED,
        "aiter/root",
        "aiter's template operators ignore AITER_JIT_DIR and build here",
    ),
    CacheRule(
        "HOME", CacheLayer.SHARED, "home", "some code builds under $HOME, which a container keeps in memory or loses"
    ),
    CacheRule("SGLANG_CACHE_DIR", CacheLayer.LOCAL, "sglang", "base of the engine's own caches"),
    CacheRule(
        "TRITON_CACHE_DIR",
        CacheLayer.LOCAL,
        "triton",
        "unset, every job compiles every kernel again while it serves; network file systems break it",
    ),
    CacheRule("TORCHINDUCTOR_CACHE_DIR", CacheLayer.LOCAL, "inductor", "compiled graphs; concurrent writers break it"),
    CacheRule("TORCH_EXTENSIONS_DIR", CacheLayer.LOCAL, "torch_extensions", "extensions that torch builds"),
    CacheRule("TILELANG_CACHE_DIR", CacheLayer.LOCAL, "tilelang", "TileLang kernels of the DSA backends"),
    CacheRule("TVM_FFI_CACHE_DIR", CacheLayer.LOCAL, "tvm-ffi", "modules that tvm-ffi builds inline"),
    CacheRule("MIOPEN_CUSTOM_CACHE_DIR", CacheLayer.LOCAL, "miopen/cache", "an SQLite file, broken by NFS locks"),
    CacheRule("MIOPEN_USER_DB_PATH", CacheLayer.LOCAL, "miopen/db", "an SQLite file, broken by NFS locks"),
    CacheRule("AMD_COMGR_CACHE_DIR", CacheLayer.LOCAL, "comgr", "compiler results of ROCm"),
    CacheRule("XDG_CACHE_HOME", CacheLayer.LOCAL, "xdg", "where everything else puts its cache"),
    CacheRule(
        "HF_MODULES_CACHE",
        CacheLayer.LOCAL,
        "hf_modules",
        "code that ships with a checkpoint, written by every rank while it loads",
    ),
    CacheRule("HF_HOME", CacheLayer.HUB, "", "models and tokens, at one place whatever HOME is"),
)


@dataclass(frozen=True, slots=True)
class CacheDirectory:
    """A cache variable with its directory.

    Attributes:
        variable: The environment variable.
        path: The directory.
        layer: How it may be used.
        reason: Why it is set.
        root: The directory of everything in its layer.
    """

    variable: str
    path: Path
    layer: CacheLayer
    reason: str
    root: Path


def shared_root(settings: CacheSettings, node: NodeFacts) -> Path:
    """Return the directory of everything that outlives a run."""
    return _absolute(settings.shared or _cache_home(node) / "supervise", node)


def layout(settings: CacheSettings, node: NodeFacts, *, engine_version: str | None) -> tuple[CacheDirectory, ...]:
    """Return the directory of every cache variable.

    Args:
        settings: The ``[caches]`` table.
        node: The machine and the caller; the ``HF_HOME`` of its environment is where models may lie already.
        engine_version: Version of the engine, part of the key: compiled code of another engine is of no use.
    """
    shared = shared_root(settings, node)
    key = settings.key if settings.key != "auto" else f"sglang-{engine_version or 'unknown'}"
    hub = settings.hf_home or node.environ.get("HF_HOME") or _cache_home(node) / "huggingface"
    roots = {
        CacheLayer.SHARED: shared / key,
        CacheLayer.LOCAL: _absolute(settings.local or shared, node) / key,
        CacheLayer.HUB: _absolute(hub, node),
    }
    return tuple(
        CacheDirectory(rule.variable, roots[rule.layer] / rule.place, rule.layer, rule.reason, roots[rule.layer])
        for rule in CACHE_RULES
    )


def _cache_home(node: NodeFacts) -> Path:
    return _absolute(node.environ.get("XDG_CACHE_HOME") or node.home / ".cache", node)


def _absolute(path: Path | str, node: NodeFacts) -> Path:
    """Return a path that stays the same whatever HOME and working directory the engine is given."""
    first, *rest = Path(path).parts or (".",)
    return node.home.joinpath(*rest) if first == "~" else node.cwd / path
