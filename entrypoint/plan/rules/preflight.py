"""Rows of what is looked for on the machine and in the files, not in the plan: their checks stand where they look."""

from entrypoint.findings import Severity
from entrypoint.outcome import ExitCode
from entrypoint.plan.rules.rule import Rule

_OWN = "supervise itself"
RULES = (
    Rule(
        "engine-python",
        Severity.ERROR,
        "the engine's interpreter",
        "Without a Python that can import sglang there is nothing to start.",
        _OWN,
        "Set engine.python to the interpreter of the environment in which SGLang is installed.",
        setting="engine.python",
    ),
    Rule(
        "port-taken",
        Severity.ERROR,
        "whether the two ports are free, before the start and when the engine first answers",
        "The engine binds its port only after the model is loaded: a port that is taken costs the whole load. Whoever "
        "listens there would be taken for the engine.",
        "SGLang 0.5.23",
        "Stop the process that the message names, or choose another port.",
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "port-unusable",
        Severity.ERROR,
        "whether this user can listen on the two ports at all",
        "A reserved port, or an address of another machine, can never be listened on.",
        _OWN,
        "Choose a port from 1024 to 65535, and an address of this node.",
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "directory-unusable",
        Severity.ERROR,
        "caches, logs and the Hugging Face home",
        "What cannot be written there is built anew by every job, or lost.",
        _OWN,
        "Set the named setting to a directory that this user can write.",
        code=ExitCode.DIRECTORY_UNUSABLE,
    ),
    Rule(
        "model-missing",
        Severity.ERROR,
        "the model's directory",
        "A path that does not exist is taken for a hub id, and ends in a download error.",
        "SGLang 0.5.23",
        "Correct model.path.",
        setting="model.path",
    ),
    Rule(
        "model-not-downloaded",
        Severity.ERROR,
        "whether a hub model lies in the hub directory as a whole",
        "Compute nodes download slowly or not at all, and into memory where HF_HOME is not set.",
        "the operators' notes for MI300A, August 2026",
        "Download it before the job: hf download MODEL, with the same HF_HOME.",
        setting="model.path",
    ),
    Rule(
        "model-config",
        Severity.ERROR,
        "the checkpoint's config.json",
        "Nothing can be loaded without it.",
        "transformers",
        "Complete the checkpoint.",
        setting="model.path",
    ),
    Rule(
        "model-tokenizer",
        Severity.ERROR,
        "the checkpoint's tokenizer",
        "The engine fails after minutes, and blames a custom tokenizer.",
        "SGLang 0.5.23",
        "Complete the checkpoint, or name another tokenizer.",
        setting="model.path",
    ),
    Rule(
        "model-chat-template",
        Severity.WARNING,
        "the checkpoint's chat template",
        "Without one there is no conversation, and no parser can be detected.",
        "SGLang 0.5.23",
        "Name one with engine.args.chat-template.",
        setting="model.path",
    ),
    Rule(
        "model-shards",
        Severity.ERROR,
        "every file that the checkpoint's index names, with its size",
        "A shard that is missing or cut off ends the load when it is reached.",
        "safetensors; SGLang 0.5.23",
        "Download the checkpoint again.",
        setting="model.path",
    ),
    Rule(
        "aiter-hidden",
        Severity.WARNING,
        "AITER_JIT_DIR where the image brings prebuilt modules",
        "With the variable set aiter looks nowhere else: an empty directory throws the image's kernels away, and a "
        "cold build of 16 modules took 633 s.",
        "aiter's jit/core.py, August 2026; sgl-project/sglang#34586",
        "Copy the image's modules there, or leave AITER_JIT_DIR unset.",
        setting="engine.env.AITER_JIT_DIR",
    ),
    Rule(
        "environment-refused",
        Severity.ERROR,
        "variables of the environment whose value would break the run",
        "GPU-direct RDMA sums wrongly on this fabric, AITER_REBUILD throws compiled kernels away at each start, and "
        "SGL_FORCE_SHUTDOWN drops the requests in flight.",
        "the operators' notes for MI300A; aiter; SGLang 0.5.23",
        "Unset the variable.",
    ),
    Rule(
        "memory-low",
        Severity.WARNING,
        "memory, every second of a run",
        "On an APU a death for want of memory is silent: the log stops.",
        "the operators' notes for MI300A, August 2026",
        "Lower the memory fraction or the number of requests, or take more nodes.",
        setting="engine.mem_fraction_static",
    ),
)
