"""The wordings: how SGLang and aiter say what the log's facts are.

The wording is that of SGLang 0.5.23 with the older spellings that are known. Patterns match a message from its
beginning, behind the time and the rank.
"""

import re
from typing import NamedTuple

from entrypoint.engine.log_facts import FactKind


class Rule(NamedTuple):
    """How a fact is recognised.

    Attributes:
        kind: The fact.
        literal: Occurs in every such line, and in few others: every line that holds it is looked at.
        pattern: Matches the message from its beginning; its named groups are the fields.
    """

    kind: FactKind
    literal: bytes
    pattern: re.Pattern[str]


def _rule(kind: FactKind, literal: bytes, *pattern: str) -> Rule:
    return Rule(kind, literal, re.compile("".join(pattern)))


_NUMBER = r"-?\d+(?:\.\d+)?"
_AVAILABLE = rf"avail mem=(?P<available_gb>{_NUMBER}) GB"
_BAR = r"(?P<done>\d+)/(?P<total>\d+)"
_TOKENS = r"(?: dtype: (?P<dtype>[\w.]+),)? #tokens: (?P<tokens>\d+)"
_TAGS = r"(?:\[[^\]]*\] *){0,3}"
_WORDS = r"[\w .-]{1,60}"

RULES = (
    _rule(FactKind.SERVER_ARGUMENTS, b"server_args=", r"server_args=(?:\{|ServerArgs\()"),
    _rule(
        FactKind.BACKEND_DEFAULT,
        b"Attention backend not specified. ",
        r"Attention backend not specified\. (?:Use |Falling back to ')(?P<attention_backend>\w+)",
    ),
    _rule(
        FactKind.PARSER_DETECTED,
        b"Auto-detected --",
        r"Auto-detected --(?P<option>reasoning-parser|tool-call-parser) as '(?P<parser>[^']+)'",
    ),
    _rule(
        FactKind.PARSER_UNDETECTED,
        b"=auto specified but could not detect ",
        r"--(?P<option>reasoning-parser|tool-call-parser)=auto specified but could not detect ",
    ),
    _rule(FactKind.INIT_BEGIN, b" begin.", r"Init (?:parallel|torch distributed) begin\."),
    _rule(
        FactKind.INIT_END,
        b" ends.",
        rf"Init (?:parallel|torch distributed) ends\.(?: elapsed=(?P<seconds>{_NUMBER}) s)?",
    ),
    _rule(FactKind.LOAD_BEGIN, b" begin.", rf"Load weight begin\. {_AVAILABLE}"),
    _rule(
        FactKind.LOAD_PROGRESS,
        b"% Completed | ",
        rf"(?P<bar>(?:Multi-thread l|L)oading {_WORDS}): +(?P<percent>\d+)% Completed \| {_BAR} \[",
    ),
    _rule(
        FactKind.LOAD_PROGRESS,
        b"Loading safetensors using ",
        rf"(?P<bar>Loading safetensors using {_WORDS}): +(?P<percent>\d+)%\|[^|]*\| *{_BAR} \[",
    ),
    _rule(
        FactKind.LOAD_END,
        b" end.",
        rf"Load weight end\. (?:elapsed=(?P<seconds>{_NUMBER}) s, )?type=(?P<type>\w+),.*?",
        rf"{_AVAILABLE}(?:, mem usage=(?P<used_gb>{_NUMBER}) GB)?",
    ),
    _rule(
        FactKind.MAMBA_CACHE,
        b"Mamba Cache is allocated.",
        r"Mamba Cache is allocated\. max_mamba_cache_size: (?P<slots>\d+), ",
        rf"conv_state size: (?P<conv_gb>{_NUMBER}) ?GB, ssm_state size: (?P<ssm_gb>{_NUMBER}) ?GB",
    ),
    _rule(
        FactKind.KV_CACHE,
        b"V size: ",
        rf"(?:(?P<label>{_WORDS}) )?KV Cache is allocated\.{_TOKENS}, ",
        rf"K size: (?P<k_gb>{_NUMBER}) GB, V size: (?P<v_gb>{_NUMBER}) GB",
    ),
    _rule(
        FactKind.KV_CACHE,
        b"V size: ",
        rf"(?:(?P<label>{_WORDS}?) )?(?:KV Cache is allocated|Post-capture KV sizing: KV cache allocated)\.",
        rf"{_TOKENS}, KV size: (?P<kv_gb>{_NUMBER}) GB",
    ),
    _rule(FactKind.POOL_END, b" end.", rf"Memory pool end\. {_AVAILABLE}"),
    _rule(FactKind.CAPTURE_BEGIN, b" begin.", rf"Capture (?P<graph>{_WORDS}) graph begin\.(?:.*?{_AVAILABLE})?"),
    _rule(
        FactKind.CAPTURE_PROGRESS,
        b" avail_mem=",
        rf"(?P<bar>Capturing (?:batches|prefill shape)) \(\w+=\d+ avail_mem=(?P<available_gb>{_NUMBER}) GB\): +",
        rf"(?P<percent>\d+)%\|[^|]*\| *{_BAR} \[",
    ),
    _rule(
        FactKind.CAPTURE_END,
        b" end.",
        rf"Capture (?P<graph>{_WORDS}) graph end\.(?:.*?elapsed=(?P<seconds>{_NUMBER}) s)?",
        rf"(?:.*?mem usage=(?P<used_gb>{_NUMBER}) GB)?(?:.*?{_AVAILABLE})?",
    ),
    _rule(
        FactKind.POOL_TOKENS,
        b"max_total_num_tokens=",
        r"max_total_num_tokens=(?P<tokens>\d+)(?:, chunked_prefill_size=(?P<chunked_prefill_size>-?\w+))?",
        r"(?:, max_prefill_tokens=(?P<max_prefill_tokens>\d+))?",
        r"(?:, max_running_requests=(?P<max_running_requests>\d+))?(?:, context_len=(?P<context_len>\d+))?",
        rf"(?:, available_[cg]pu_mem=(?P<available_gb>{_NUMBER}) GB)?",
    ),
    _rule(FactKind.HTTP_UP, b"Uvicorn running on ", r"(?:INFO: +)?Uvicorn running on (?P<url>https?://\S+)"),
    _rule(FactKind.WARMUP_BEGUN, b"model_info HTTP/", r'INFO: +\S+ - "GET /(?:get_)?model_info HTTP/[\d.]+" 200'),
    _rule(FactKind.WARMUP_FAILED, b" error:", r"Initialization failed\. warmup error: *(?P<error>.*)"),
    _rule(
        FactKind.FIRED_UP,
        b"The server is fired up and ready to roll!",
        r"The server is fired up and ready to roll!\s*$",
    ),
    _rule(
        FactKind.WORKER_READY,
        b"Dummy health check server started",
        r"Dummy health check server started in background thread at (?P<address>\S+)",
    ),
    _rule(
        FactKind.DRAINING,
        b"Gracefully exiting... ",
        r"Gracefully exiting\.\.\. Remaining number of requests (?P<remaining>\d+)",
    ),
    _rule(FactKind.SIGTERM_SEEN, b"SIGTERM received", r"(?:Signal )?SIGTERM received(?:\.| on node_rank | while )"),
    _rule(
        FactKind.JIT_BUILD_BEGIN,
        b" build ",
        rf"{_TAGS}start build (?=[\[/])\[?(?P<module>[^\]\s,]+)",
    ),
    _rule(
        FactKind.JIT_BUILD_END,
        b" build ",
        rf"{_TAGS}finish build (?=[\[/])\[?(?P<module>[^\]\s,]+)\]?, cost (?P<seconds>{_NUMBER})s",
    ),
    _rule(
        FactKind.JIT_BUILD_FAILED,
        b" build ",
        rf"{_TAGS}failed jit build \[(?P<module>[^\]]+)\]",
    ),
    _rule(
        FactKind.EXCEPTION,
        b" hit an exception: ",
        r"(?P<who>(?:Scheduler|DataParallelController|Multi\w+|\w+Manager)) hit an exception: ",
    ),
    _rule(FactKind.EXCEPTION, b"Traceback (most recent call last):", r"Traceback \(most recent call last\):"),
    _rule(FactKind.EXCEPTION, b" error:", r"(?P<who>sglang serve|[\w-]+\.py): error: (?P<message>.*)"),
)

ARGUMENT = re.compile(
    r"(?<!\w)(?P<name>attention_backend|chunked_prefill_size|context_length|decode_attention_backend|device|dp_size|"
    r"dtype|host|kv_cache_dtype|max_running_requests|max_total_tokens|mem_fraction_static|model_path|nnodes|"
    r"node_rank|page_size|port|pp_size|prefill_attention_backend|quantization|reasoning_parser|served_model_name|"
    r"tool_call_parser|tp_size|watchdog_timeout)['\"]?(?:: |=)"
    r"(?:(?P<quote>['\"])(?P<text>.*?)(?P=quote)|(?P<word>[^\s,)}]+))"
)
"""One of the engine's arguments, in the wording of a dictionary or of the older ``ServerArgs(…)``."""
