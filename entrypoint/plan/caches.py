"""Where each cache lies and what of it outlives a job: one table, with a reason for every variable.

The engine writes into node-local directories alone. What is finished there is kept in a persistent tree that other
jobs and nodes start from; the image may bring a third tree that the persistent one is begun with.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from entrypoint.node.facts import NodeFacts
from entrypoint.plan.cache_key import CacheKey
from entrypoint.settings.schema import CacheSettings


class CacheLayer(StrEnum):
    """Where the directory of a variable lies."""

    LOCAL = "local"
    """On this node, at a path that is the same for every job of one user and key: what is built here may hold it."""
    HUB = "hub"
    """The Hugging Face home: large, mostly read, never copied."""


@dataclass(frozen=True, slots=True)
class EntryRule:
    """What one entry of a cache is: the smallest thing that is copied whole or not at all.

    Attributes:
        pattern: Finds entries below the cache's directory, files or directories; ``**/*`` means every file.
        holds: A name that a directory must hold to be finished; empty where nothing tells.
        lock: Where its builder holds a lock, below the cache's directory, with ``{name}`` and ``{stem}`` of the entry;
            empty where it has none.
        leaves_out: Names of files and directories that never belong to an entry.
    """

    pattern: str
    holds: str = ""
    lock: str = ""
    leaves_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CacheRule:
    """One cache variable.

    Sources of the reasons: the code of aiter (August 2026), Triton 3.7, PyTorch 2.11 and SGLang 0.5.23, and what was
    measured with them on MI300A.

    Attributes:
        variable: The environment variable.
        layer: Where its directory lies.
        place: The directory below the layer's own.
        reason: Why it is set.
        entries: What of it is kept for other jobs; empty where nothing is.
        keeping: Why it is kept, or why not.
    """

    variable: str
    layer: CacheLayer
    place: str
    reason: str
    entries: tuple[EntryRule, ...]
    keeping: str


_TEMPORARY = ("tmp.*", "*.tmp", ".tmp*", "*.lock", "locks", "*.steal")
_FILES = (EntryRule("**/*", leaves_out=_TEMPORARY),)
_CONTENT_KEYED = "its files are named by what they hold and never change: whatever is there is right"

_JIT_MODULES = EntryRule("*.so", lock="build/lock_{stem}")
_TEMPLATE_OPS = EntryRule("build/*", holds="lib.so", lock="build/{name}/lock", leaves_out=("lock", "*.steal"))

CACHE_RULES = (
    CacheRule(
        "AITER_JIT_DIR",
        CacheLayer.LOCAL,
        "aiter/jit",
        "aiter builds its modules on first use; cold, that outlives the engine's watchdog",
        (_JIT_MODULES,),
        "aiter puts a module in place by a plain copy, so that a tree shared by nodes would show halves of files",
    ),
    CacheRule(
        "AITER_ROOT_DIR",
        CacheLayer.LOCAL,
        "aiter/root",
        "aiter's template operators ignore AITER_JIT_DIR and build here",
        (_TEMPLATE_OPS,),
        "each operator and set of arguments has a directory of its own, with the library in it",
    ),
    CacheRule(
        "FLYDSL_RUNTIME_CACHE_DIR",
        CacheLayer.LOCAL,
        "flydsl",
        "FlyDSL's kernels; unset, they go below the home",
        _FILES,
        _CONTENT_KEYED,
    ),
    CacheRule(
        "HOME",
        CacheLayer.LOCAL,
        "home",
        "some code builds under $HOME, which a container keeps in memory or loses",
        (
            EntryRule(".aiter/jit/*.so", lock=".aiter/jit/build/lock_{stem}"),
            EntryRule(
                ".aiter/build/*", holds="lib.so", lock=".aiter/build/{name}/lock", leaves_out=("lock", "*.steal")
            ),
        ),
        "only what aiter builds there: nobody knows what else may be copied",
    ),
    CacheRule(
        "SGLANG_CACHE_DIR",
        CacheLayer.LOCAL,
        "sglang",
        "base of the engine's own caches",
        _FILES,
        "small tables and compiled code, each in a file of its own",
    ),
    CacheRule(
        "TRITON_CACHE_DIR",
        CacheLayer.LOCAL,
        "triton",
        "unset, every job compiles every kernel again while it serves; network file systems break it",
        (EntryRule("*", leaves_out=_TEMPORARY),),
        "a kernel's directory names the others by absolute paths, right only while its own path stays the same",
    ),
    CacheRule(
        "TORCHINDUCTOR_CACHE_DIR",
        CacheLayer.LOCAL,
        "inductor",
        "compiled graphs; concurrent writers on a network file system break it",
        _FILES,
        _CONTENT_KEYED,
    ),
    CacheRule(
        "TORCH_EXTENSIONS_DIR",
        CacheLayer.LOCAL,
        "torch_extensions",
        "extensions that torch builds; a lock that a dead builder left here is waited for without end",
        (EntryRule("*", holds="*.so", lock="{name}/lock", leaves_out=("lock",)),),
        "ninja builds again unless sources, objects and their times stay together: a directory is one entry",
    ),
    CacheRule(
        "TILELANG_CACHE_DIR",
        CacheLayer.LOCAL,
        "tilelang",
        "TileLang kernels of the DSA backends",
        _FILES,
        _CONTENT_KEYED,
    ),
    CacheRule(
        "TVM_FFI_CACHE_DIR",
        CacheLayer.LOCAL,
        "tvm-ffi",
        "modules that tvm-ffi builds inline",
        (EntryRule("*", holds="*.so", leaves_out=("lock",)),),
        "ninja's directories again, named by what they are built from",
    ),
    CacheRule(
        "MIOPEN_CUSTOM_CACHE_DIR",
        CacheLayer.LOCAL,
        "miopen/cache",
        "an SQLite file, broken by the locks of network file systems",
        (),
        "it changes in place: a copy could catch it in between",
    ),
    CacheRule(
        "MIOPEN_USER_DB_PATH",
        CacheLayer.LOCAL,
        "miopen/db",
        "SQLite and text files, broken by the locks of network file systems",
        (),
        "they change in place: a copy could catch them in between",
    ),
    CacheRule("AMD_COMGR_CACHE_DIR", CacheLayer.LOCAL, "comgr", "compiler results of ROCm", _FILES, _CONTENT_KEYED),
    CacheRule(
        "XDG_CACHE_HOME",
        CacheLayer.LOCAL,
        "xdg",
        "where everything else puts its cache",
        (),
        "nobody knows what may be copied: one engine's compile cache ends a start when it holds a dead entry",
    ),
    CacheRule(
        "HF_MODULES_CACHE",
        CacheLayer.LOCAL,
        "hf_modules",
        "code that ships with a checkpoint, written by every rank while it loads",
        (),
        "written anew from the checkpoint at each load, and an old revision's code must not come back",
    ),
    CacheRule(
        "HF_HOME",
        CacheLayer.HUB,
        "",
        "models and tokens, at one place whatever HOME is",
        (),
        "it lies where all nodes see it already",
    ),
)


@dataclass(frozen=True, slots=True)
class CacheTrees:
    """The trees that caches lie in, each with the same places below it.

    Attributes:
        key: What they are for.
        image: What the image was built with; need not exist, and is never written.
        shared: The persistent tree; never written by an engine.
        local: The tree of this node, in which engines write.
    """

    key: CacheKey
    image: Path
    shared: Path
    local: Path

    def root_of(self, tree: Path) -> Path:
        """Return the directory of all trees of a layer, whatever their key.

        Args:
            tree: The shared or the local one.
        """
        return tree.parents[len(self.key.directory.parts) - 1]


@dataclass(frozen=True, slots=True)
class CacheDirectory:
    """A cache variable with its directory.

    Attributes:
        variable: The environment variable.
        path: The directory.
        layer: Where it lies.
        reason: Why it is set.
        root: The directory of everything in its layer.
        place: The directory below each tree; empty where the cache lies in no tree, or is kept elsewhere by a wish.
        entries: What of it is kept for other jobs.
        keeping: Why it is kept, or why not.
    """

    variable: str
    path: Path
    layer: CacheLayer
    reason: str
    root: Path
    place: str = ""
    entries: tuple[EntryRule, ...] = ()
    keeping: str = ""


def shared_root(settings: CacheSettings, node: NodeFacts) -> Path:
    """Return the directory of everything that outlives a run."""
    return _absolute(settings.shared or _cache_home(node) / "supervise", node)


def local_root(settings: CacheSettings, node: NodeFacts) -> Path:
    """Return the directory of everything that this node keeps; one user's, since its name can be guessed.

    It does not follow TMPDIR, which many sites give each job anew: what is built in it may name its own path.
    """
    return _absolute(settings.local or f"/tmp/supervise-{node.user_id}", node)  # noqa: S108  # its owner is looked at


def trees(settings: CacheSettings, node: NodeFacts, key: CacheKey) -> CacheTrees:
    """Return the trees of a key."""
    below = key.directory
    return CacheTrees(key, settings.image, shared_root(settings, node) / below, local_root(settings, node) / below)


def layout(settings: CacheSettings, node: NodeFacts, where: CacheTrees) -> tuple[CacheDirectory, ...]:
    """Return the directory of every cache variable.

    Args:
        settings: The ``[caches]`` table.
        node: The machine and the caller; the ``HF_HOME`` of its environment is where models may lie already.
        where: The trees.
    """
    hub = settings.hf_home or node.environ.get("HF_HOME") or _cache_home(node) / "huggingface"
    roots = {CacheLayer.LOCAL: where.local, CacheLayer.HUB: _absolute(hub, node)}
    return tuple(
        CacheDirectory(
            rule.variable,
            roots[rule.layer] / rule.place,
            rule.layer,
            rule.reason,
            roots[rule.layer],
            rule.place,
            rule.entries,
            rule.keeping,
        )
        for rule in CACHE_RULES
    )


def _cache_home(node: NodeFacts) -> Path:
    return _absolute(node.environ.get("XDG_CACHE_HOME") or node.home / ".cache", node)


def _absolute(path: Path | str, node: NodeFacts) -> Path:
    """Return a path that stays the same whatever HOME and working directory the engine is given."""
    first, *rest = Path(path).parts or (".",)
    return node.home.joinpath(*rest) if first == "~" else node.cwd / path
