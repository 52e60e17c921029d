"""What the engine's images preset for other machines, and what an EDF sets instead.

An image's variables beat those of the host, so that an ``export`` in a batch script changes nothing: only an EDF's
``[env]`` does, or the supervisor. Source: the Dockerfile of SGLang's ROCm images, August 2026.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """A variable that images preset.

    Attributes:
        name: Its name.
        preset: The image's value.
        value: What it should be; empty means unset.
        reason: Why, in one clause.
        family: The model family that it matters to; None for all.
    """

    name: str
    preset: str
    value: str
    reason: str
    family: str | None = None


PRESETS = (
    Preset(
        "SGLANG_SET_CPU_AFFINITY",
        "1",
        "0",
        "the engine's own pinning leaves the processors that Slurm gave, and dies",
    ),
    Preset(
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
        "1",
        "0",
        "a context beyond the model's own should be an error, not silent nonsense",
    ),
    Preset("NCCL_MIN_NCHANNELS", "112", "", "tuned for eight MI300X; on four APUs it only costs memory (not measured)"),
    Preset("ROCM_QUICK_REDUCE_QUANTIZATION", "INT8", "", "compresses sums between APUs, with a loss"),
    Preset("SGLANG_ROCM_FUSED_DECODE_MLA", "1", "0", "this model's recipes want it off", family="kimi_k2"),
)

IMAGE_TREES = ("/sgl-workspace", "/opt/venv", "/opt/supervise")
"""Where the images keep engine, interpreter and supervisor: a mount there hides them."""


def presets_for(family: str | None) -> tuple[Preset, ...]:
    """Return what matters to a model family."""
    return tuple(preset for preset in PRESETS if preset.family in {None, family})
