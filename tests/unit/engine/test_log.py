from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.engine.log import FactKind, LogFact, LogScanner

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "start-0.5.23-cpu.log"
TIME = "[2026-10-20 10:00:12] "
PROGRESS = {FactKind.LOAD_PROGRESS, FactKind.CAPTURE_PROGRESS}


def scan(text: str) -> list[LogFact]:
    return LogScanner().scan(text.encode())


def only(facts: list[LogFact]) -> LogFact:
    [fact] = facts
    return fact


def test_a_recorded_start_and_stop_is_told_in_order():
    facts = LogScanner().scan(RECORDED.read_bytes())

    assert [fact.kind for fact in facts] == [
        FactKind.SERVER_ARGUMENTS,
        FactKind.INIT_BEGIN,
        FactKind.INIT_END,
        FactKind.LOAD_BEGIN,
        FactKind.LOAD_PROGRESS,
        FactKind.LOAD_END,
        FactKind.KV_CACHE,
        FactKind.POOL_END,
        FactKind.POOL_TOKENS,
        FactKind.HTTP_UP,
        FactKind.WARMUP_BEGUN,
        FactKind.FIRED_UP,
        FactKind.WARMUP_BEGUN,
        FactKind.SIGTERM_SEEN,
        FactKind.DRAINING,
    ]


def test_a_recorded_start_carries_its_values():
    facts = {fact.kind: fact for fact in LogScanner().scan(RECORDED.read_bytes())}

    arguments = facts[FactKind.SERVER_ARGUMENTS].fields
    assert arguments["attention_backend"] == "torch_native"
    assert arguments["mem_fraction_static"] == "0.1"
    assert arguments["context_length"] == "4096"
    assert arguments["tp_size"] == "1"
    assert arguments["port"] == "31000"
    assert arguments["reasoning_parser"] == "qwen3"
    assert "quantization" not in arguments
    assert facts[FactKind.LOAD_BEGIN].number("available_gb") == 21.8
    assert facts[FactKind.LOAD_END].fields["type"] == "Qwen3ForCausalLM"
    assert facts[FactKind.KV_CACHE].number("tokens") == 8192
    assert facts[FactKind.POOL_TOKENS].number("context_len") == 4096
    assert facts[FactKind.POOL_TOKENS].number("available_gb") == 21.76
    assert facts[FactKind.HTTP_UP].fields["url"] == "http://127.0.0.1:31000"
    assert facts[FactKind.DRAINING].number("remaining") == 0


@pytest.mark.parametrize(
    ("message", "kind", "fields"),
    [
        (
            "server_args=ServerArgs(model_path='/m', attention_backend='aiter', quantization=None, tp_size=4)",
            FactKind.SERVER_ARGUMENTS,
            {"model_path": "/m", "attention_backend": "aiter", "tp_size": "4"},
        ),
        (
            "Attention backend not specified. Use aiter backend by default.",
            FactKind.BACKEND_DEFAULT,
            {"attention_backend": "aiter"},
        ),
        (
            "Attention backend not specified. Falling back to 'fa3' for deterministic inference. You can",
            FactKind.BACKEND_DEFAULT,
            {"attention_backend": "fa3"},
        ),
        (
            "Auto-detected --reasoning-parser as 'qwen3' from chat template",
            FactKind.PARSER_DETECTED,
            {"option": "reasoning-parser", "parser": "qwen3"},
        ),
        (
            "--tool-call-parser=auto specified but could not detect tool call parser from chat template. Disabling it.",
            FactKind.PARSER_UNDETECTED,
            {"option": "tool-call-parser"},
        ),
        ("Init torch distributed begin.", FactKind.INIT_BEGIN, {}),
        ("Init torch distributed ends. mem usage=0.52 GB", FactKind.INIT_END, {}),
        ("Init parallel ends. elapsed=12.90 s", FactKind.INIT_END, {"seconds": "12.90"}),
        ("Load weight begin. avail mem=489.77 GB", FactKind.LOAD_BEGIN, {"available_gb": "489.77"}),
        (
            "Loading safetensors checkpoint shards:  45% Completed | 29/64 [01:10<01:25,  2.44s/it]",
            FactKind.LOAD_PROGRESS,
            {"bar": "Loading safetensors checkpoint shards", "percent": "45", "done": "29", "total": "64"},
        ),
        (
            "Loading safetensors using Fastsafetensor loader:  43%|████▎     | 3/7 [00:10<00:13,  3.4s/it]",
            FactKind.LOAD_PROGRESS,
            {"bar": "Loading safetensors using Fastsafetensor loader", "percent": "43", "done": "3", "total": "7"},
        ),
        (
            "Load weight end. elapsed=448.90 s, type=KimiK25, quant=fp8, avail mem=336.10 GB, mem usage=1.67 GB.",
            FactKind.LOAD_END,
            {"seconds": "448.90", "type": "KimiK25", "available_gb": "336.10", "used_gb": "1.67"},
        ),
        (
            "Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=70.10 GB",
            FactKind.LOAD_END,
            {"type": "Qwen3ForCausalLM", "available_gb": "70.10"},
        ),
        (
            "Mamba Cache is allocated. max_mamba_cache_size: 314, conv_state size: 1.20GB, ssm_state size: 11.24GB ",
            FactKind.MAMBA_CACHE,
            {"slots": "314", "conv_gb": "1.20", "ssm_gb": "11.24"},
        ),
        (
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 812345, K size: 12.40 GB, V size: 12.41 GB",
            FactKind.KV_CACHE,
            {"dtype": "torch.bfloat16", "tokens": "812345", "k_gb": "12.40", "v_gb": "12.41"},
        ),
        (
            "SWA KV Cache is allocated. #tokens: 402112, KV size: 13.51 GB",
            FactKind.KV_CACHE,
            {"label": "SWA", "tokens": "402112", "kv_gb": "13.51"},
        ),
        (
            "Post-capture KV sizing: KV cache allocated. dtype: torch.int8, #tokens: 9, KV size: 1.00 GB, avail",
            FactKind.KV_CACHE,
            {"dtype": "torch.int8", "tokens": "9", "kv_gb": "1.00"},
        ),
        ("Memory pool end. avail mem=210.04 GB", FactKind.POOL_END, {"available_gb": "210.04"}),
        (
            "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail mem=209.80 GB",
            FactKind.CAPTURE_BEGIN,
            {"graph": "target decode CUDA", "available_gb": "209.80"},
        ),
        ("Capture cuda graph begin. This can take up to several minutes.", FactKind.CAPTURE_BEGIN, {"graph": "cuda"}),
        (
            "Capturing batches (bs=256 avail_mem=206.71 GB):  10%|#         | 3/36 [00:04<00:48,  1.47s/it]",
            FactKind.CAPTURE_PROGRESS,
            {"bar": "Capturing batches", "available_gb": "206.71", "percent": "10", "done": "3", "total": "36"},
        ),
        (
            "Capturing prefill shape (num_tokens=4096 avail_mem=207.90 GB):  50%|██  | 5/10 [00:04<00:04,  1.1it/s]",
            FactKind.CAPTURE_PROGRESS,
            {"bar": "Capturing prefill shape", "available_gb": "207.90", "percent": "50", "done": "5", "total": "10"},
        ),
        (
            "Capture target decode CPU graph end. bs=[1, 2], elapsed=61.22 s, mem usage=3.10 GB, avail mem=206.70 GB.",
            FactKind.CAPTURE_END,
            {"graph": "target decode CPU", "seconds": "61.22", "used_gb": "3.10", "available_gb": "206.70"},
        ),
        (
            "max_total_num_tokens=9, chunked_prefill_size=-1, context_len=262144, available_gpu_mem=206.70 GB",
            FactKind.POOL_TOKENS,
            {"tokens": "9", "chunked_prefill_size": "-1", "context_len": "262144", "available_gb": "206.70"},
        ),
        (
            "INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)",
            FactKind.HTTP_UP,
            {"url": "http://0.0.0.0:30000"},
        ),
        ('INFO:     127.0.0.1:51514 - "GET /get_model_info HTTP/1.1" 200 OK', FactKind.WARMUP_BEGUN, {}),
        (
            "Initialization failed. warmup error: Traceback (most recent call last):",
            FactKind.WARMUP_FAILED,
            {"error": "Traceback (most recent call last):"},
        ),
        ("The server is fired up and ready to roll!", FactKind.FIRED_UP, {}),
        (
            "Dummy health check server started in background thread at 0.0.0.0:30000",
            FactKind.WORKER_READY,
            {"address": "0.0.0.0:30000"},
        ),
        (
            "Gracefully exiting... Remaining number of requests 3. Remaining requests remaining_rids=['a', 'b', 'c'].",
            FactKind.DRAINING,
            {"remaining": "3"},
        ),
        ("SIGTERM received. signum=None frame=None. Draining requests", FactKind.SIGTERM_SEEN, {}),
        ("SIGTERM received on node_rank 1; waiting for the rank-0 broadcast", FactKind.SIGTERM_SEEN, {}),
        (
            "[aiter] start build [module_moe_ck2stages] under /cache/aiter/build/module_moe_ck2stages",
            FactKind.JIT_BUILD_BEGIN,
            {"module": "module_moe_ck2stages"},
        ),
        ("start build /root/.aiter/build/pa_1f2e", FactKind.JIT_BUILD_BEGIN, {"module": "/root/.aiter/build/pa_1f2e"}),
        (
            "\x1b[32m[aiter] finish build [module_quant], cost 61.8s \x1b[0m",
            FactKind.JIT_BUILD_END,
            {"module": "module_quant", "seconds": "61.8"},
        ),
        (
            "finish build /root/.aiter/build/pa_1f2e, cost 6.25s",
            FactKind.JIT_BUILD_END,
            {"module": "/root/.aiter/build/pa_1f2e", "seconds": "6.25"},
        ),
        ("[aiter] failed jit build [module_quant]", FactKind.JIT_BUILD_FAILED, {"module": "module_quant"}),
        ("Scheduler hit an exception: Traceback (most recent call last):", FactKind.EXCEPTION, {"who": "Scheduler"}),
        ("Traceback (most recent call last):", FactKind.EXCEPTION, {}),
        (
            "sglang serve: error: unrecognized arguments: --tpsize 4",
            FactKind.EXCEPTION,
            {"who": "sglang serve", "message": "unrecognized arguments: --tpsize 4"},
        ),
    ],
)
@pytest.mark.parametrize("prefix", ["", TIME, "[2026-10-20 10:00:12.345 DP1 PP0 TP3] "])
def test_a_wording_is_recognised_with_and_without_a_prefix(
    prefix: str, message: str, kind: FactKind, fields: Mapping[str, str]
):
    fact = only(scan(f"{prefix}{message}\n"))

    assert fact.kind is kind
    assert fact.fields == fields
    assert fact.line.endswith(message.replace("\x1b[32m", "").replace("\x1b[0m", ""))
    assert fact.rank_tags == ("DP1 PP0 TP3" if "TP3" in prefix else "")


@pytest.mark.parametrize(
    "line",
    [
        TIME + "Receive: obj=GenerateReqInput(text='The server is fired up and ready to roll!')",
        TIME + "The server is fired up and ready to roll! says the user",
        TIME + "Receive: obj=GenerateReqInput(text='x [2026-10-20 10:00:12] The server is fired up and ready to roll!",
        TIME + 'INFO:     127.0.0.1:1 - "GET /model_info HTTP/1.1" 503 Service Unavailable',
        TIME + 'INFO:     127.0.0.1:1 - "GET /x?max_total_num_tokens=5, Load weight begin. HTTP/1.1" 404 Not Found',
        TIME + "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 100, KV size: 1.00 GB",
        TIME + "Auto-detected template features: reasoning",
        TIME + "Ignore import error when loading sglang.srt.models.grok: error: no module",
        TIME + "the answer: error: is a word",
        TIME + "we start build servers",
        TIME + "Prefill batch, #new-seq: 1, #new-token: 23, #cached-token: 0",
        "model.safetensors:  45%|####      | 2.1G/4.7G [00:10<00:13, 210MB/s]",
        "",
    ],
)
def test_a_line_that_only_mentions_a_wording_is_no_fact(line: str):
    assert scan(line + "\n") == []


def test_a_missing_field_is_named():
    fact = only(scan("Init parallel begin.\n"))

    with pytest.raises(KeyError, match="seconds"):
        fact.number("seconds")


def bar(done: int, total: int = 4) -> str:
    percent = 100 * done // total
    return f"\rMulti-thread loading shards: {percent:3d}% Completed | {done}/{total} [00:00<00:00, 88.92it/s]"


def test_of_a_bar_that_is_redrawn_the_last_state_counts():
    fact = only(scan(bar(0) + bar(1) + bar(2) + "\r"))

    assert fact.number("done") == 2


def test_what_is_said_between_two_states_of_a_bar_keeps_its_place():
    facts = scan(bar(0) + bar(1) + "\n" + TIME + "Load weight begin. avail mem=1.00 GB\n" + bar(0) + "\n")

    assert [(fact.kind, fact.fields.get("done")) for fact in facts] == [
        (FactKind.LOAD_PROGRESS, "1"),
        (FactKind.LOAD_BEGIN, None),
        (FactKind.LOAD_PROGRESS, "0"),
    ]


def test_a_line_of_another_rank_behind_a_bar_without_an_end_is_seen():
    progress, end = scan(bar(3) + "[2026-10-20 10:07:41 TP1] Memory pool end. avail mem=210.04 GB\n")

    assert progress.number("done") == 3
    assert (end.kind, end.rank_tags) == (FactKind.POOL_END, "TP1")
    assert end.line.startswith("[2026-10-20 10:07:41 TP1]")


def test_a_long_line_is_read_to_its_end_and_kept_in_part():
    fact = only(scan(TIME + "server_args={" + "'x': 1, " * 5000 + "'attention_backend': 'aiter'}\n"))

    assert fact.fields == {"attention_backend": "aiter"}
    assert len(fact.line) == 4096


def test_invalid_utf_8_does_not_hide_a_fact():
    facts = LogScanner().scan(
        b"\xff\xfe\n[2026-10-20 10:00:12] Gracefully exiting... Remaining number of requests 1. \xff\n"
    )

    assert only(facts).kind is FactKind.DRAINING


def test_a_fact_in_an_unfinished_line_is_told_once():
    scanner = LogScanner()

    assert [fact.fields["done"] for fact in scanner.peek(bar(1).encode())] == ["1"]
    assert scanner.peek(bar(1).encode()) == []
    assert scanner.scan((bar(1) + "\n").encode()) == []


def test_a_bar_that_has_moved_on_since_is_told_again():
    scanner = LogScanner()
    scanner.peek(bar(1).encode())

    assert [fact.fields["done"] for fact in scanner.scan((bar(1) + bar(2) + "\n").encode())] == ["2"]


def test_a_fact_that_comes_back_later_is_told_again():
    scanner = LogScanner()
    scanner.peek(bar(1).encode())
    scanner.scan((bar(1) + "\n").encode())

    assert len(scanner.scan((bar(1) + "\n").encode())) == 1


@given(st.binary())
def test_any_bytes_can_be_scanned(data: bytes):
    scanner = LogScanner()
    scanner.peek(data)
    scanner.scan(data)


@given(
    st.lists(
        st.sampled_from(
            [b"\n", b"\r", b"[2026-10-20 10:00:12] ", b"Load weight begin. ", b"avail mem=1..2 GB", b"\xff"]
        ),
        max_size=12,
    )
)
def test_pieces_of_wordings_in_any_order_can_be_scanned(parts: list[bytes]):
    for fact in LogScanner().scan(b"".join(parts)):
        fact.number("available_gb")


@given(st.sets(st.integers(0, 200)))
def test_how_lines_are_grouped_does_not_change_what_is_told(borders: set[int]):
    lines = RECORDED.read_bytes().splitlines(keepends=True)
    cuts = sorted({0, len(lines), *(border for border in borders if border < len(lines))})
    scanner = LogScanner()

    told = [fact for start, end in pairwise(cuts) for fact in scanner.scan(b"".join(lines[start:end]))]

    whole = LogScanner().scan(RECORDED.read_bytes())
    assert without_progress(told) == without_progress(whole)
    assert [fact for fact in told if fact.kind in PROGRESS][-1] == next(f for f in whole if f.kind in PROGRESS)


def without_progress(facts: list[LogFact]) -> list[LogFact]:
    return [fact for fact in facts if fact.kind not in PROGRESS]
