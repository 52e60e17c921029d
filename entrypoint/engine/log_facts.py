"""Facts of the engine's log: the kinds that there are, and what one carries."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class FactKind(StrEnum):
    """What a line says, with the fields that it carries."""

    SERVER_ARGUMENTS = "server_arguments"
    """The resolved arguments: ``attention_backend``, ``tp_size`` …, without those that are None."""
    BACKEND_DEFAULT = "backend_default"
    """``attention_backend``: nobody asked for one, this is the engine's choice."""
    PARSER_DETECTED = "parser_detected"
    """``option``, ``parser``: what ``auto`` resolved to."""
    PARSER_UNDETECTED = "parser_undetected"
    """``option``: ``auto`` found nothing, the parser is off."""
    INIT_BEGIN = "init_begin"
    """Process groups are being set up; waits for every node."""
    INIT_END = "init_end"
    """``seconds`` in newer versions."""
    LOAD_BEGIN = "load_begin"
    """``available_gb``; seen again for a draft model."""
    LOAD_PROGRESS = "load_progress"
    """``bar``, ``percent``, ``done``, ``total``; drawn by global rank 0 alone."""
    LOAD_END = "load_end"
    """``type``, ``available_gb``; ``seconds`` and ``used_gb`` in newer versions."""
    MAMBA_CACHE = "mamba_cache"
    """``slots``, ``conv_gb``, ``ssm_gb``."""
    KV_CACHE = "kv_cache"
    """``tokens``; ``dtype``; either ``k_gb`` and ``v_gb`` or ``kv_gb``; ``label`` of a second pool."""
    POOL_END = "pool_end"
    """``available_gb``."""
    CAPTURE_BEGIN = "capture_begin"
    """``graph``; ``available_gb`` mostly."""
    CAPTURE_PROGRESS = "capture_progress"
    """``bar``, ``available_gb``, ``percent``, ``done``, ``total``; drawn by tensor rank 0 of each stage."""
    CAPTURE_END = "capture_end"
    """``graph``; ``seconds``, ``used_gb``, ``available_gb`` mostly."""
    POOL_TOKENS = "pool_tokens"
    """``tokens``, ``max_running_requests``, ``context_len`` …: the scheduler of a stage is ready."""
    HTTP_UP = "http_up"
    """``url``: the port is open."""
    WARMUP_BEGUN = "warmup_begun"
    """Somebody, at first the engine's own warmup, got an answer from ``/model_info``."""
    WARMUP_FAILED = "warmup_failed"
    """``error``."""
    FIRED_UP = "fired_up"
    """The engine calls itself ready."""
    WORKER_READY = "worker_ready"
    """``address``: what a node that is not the first says instead."""
    DRAINING = "draining"
    """``remaining`` requests."""
    SIGTERM_SEEN = "sigterm_seen"
    """The engine has noticed that it shall stop."""
    JIT_BUILD_BEGIN = "jit_build_begin"
    """``module``: a kernel is being compiled."""
    JIT_BUILD_END = "jit_build_end"
    """``module``, ``seconds``; printed after a failed build as well."""
    JIT_BUILD_FAILED = "jit_build_failed"
    """``module``."""
    EXCEPTION = "exception"
    """A traceback or a refused command line; ``who`` and ``message`` where they are told."""


@dataclass(frozen=True, slots=True)
class LogFact:
    """One thing that the engine's log says.

    Attributes:
        kind: What it says.
        fields: The values in the line, as text, by the names that the kind documents; absent ones are left out.
        line: The line itself, without colours, shortened when very long.
        rank_tags: Which rank says it, such as ``PP1 TP3``; empty when there is one, or for the engine's main process.
    """

    kind: FactKind
    fields: Mapping[str, str]
    line: str
    rank_tags: str = ""

    def number(self, name: str) -> float:
        """Return a numeric field.

        Raises:
            KeyError: The line does not have it.
            ValueError: It is not a number.
        """
        return float(self.fields[name])
