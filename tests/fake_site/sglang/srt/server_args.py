"""The fake engine's flags: those of SGLang 0.5.23 that the supervisor sets by itself, and some that tests set."""

import argparse


class ServerArgs:
    """The name under which SGLang keeps its flags."""

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Declare the flags, as SGLang's method of this name does."""
        add_words(parser)
        add_numbers(parser)
        add_choices(parser)
        for flag in ("--trust-remote-code", "--enable-metrics", "--enable-cache-report", "--language-only"):
            parser.add_argument(flag, action="store_true")
        parser.add_argument("--config", help="Read CLI options from a config file.")
        parser.add_argument(
            "--grpc-mode",
            action="store_true",
            help="(Deprecated, use --smg-grpc-mode) Legacy SMG gRPC server selector.",
        )


def add_words(parser: argparse.ArgumentParser) -> None:
    """Declare flags that take any word."""
    parser.add_argument("--model-path", "--model", required=True, help="The path of the model weights.")
    parser.add_argument("--served-model-name")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--device")
    for flag in ("--tokenizer-path", "--revision", "--chat-template", "--dist-init-addr", "--log-level"):
        parser.add_argument(flag)
    for flag in ("--api-key", "--admin-api-key"):
        parser.add_argument(flag)


def add_numbers(parser: argparse.ArgumentParser) -> None:
    """Declare flags that take a number."""
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--pp-size", "--pipeline-parallel-size", type=int, default=1)
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--mem-fraction-static", type=float)
    parser.add_argument("--watchdog-timeout", type=float, default=300)
    for flag in (
        "--context-length",
        "--max-running-requests",
        "--max-total-tokens",
        "--chunked-prefill-size",
        "--page-size",
        "--dist-timeout",
    ):
        parser.add_argument(flag, type=int)


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Declare flags that take one of a few words; each list is a part of the real one."""
    parser.add_argument("--attention-backend", choices=["triton", "torch_native", "dsa", "aiter"])
    parser.add_argument("--dtype", choices=["auto", "half", "float16", "bfloat16", "float", "float32"], default="auto")
    parser.add_argument("--kv-cache-dtype", choices=["auto", "fp8_e4m3", "bf16", "bfloat16"], default="auto")
    parser.add_argument("--reasoning-parser", choices=["auto", "glm45", "gpt-oss", "kimi_k2", "qwen3"])
    parser.add_argument("--tool-call-parser", choices=["auto", "glm47", "gpt-oss", "kimi_k2", "qwen", "qwen3_coder"])
