"""A handful of SGLang 0.5.23's flags, with its own choices."""

import argparse


class ServerArgs:
    """Adds the flags, as the original does."""

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--model-path", "--model", required=True, help="The path of the model weights.")
        parser.add_argument("--tokenizer-path")
        parser.add_argument("--served-model-name")
        parser.add_argument("--revision")
        parser.add_argument("--trust-remote-code", action="store_true")
        parser.add_argument("--context-length", type=int)
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=30000)
        parser.add_argument("--device")
        parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=1)
        parser.add_argument("--pp-size", "--pipeline-parallel-size", type=int, default=1)
        parser.add_argument("--pp-max-micro-batch-size", type=int)
        parser.add_argument("--pp-async-batch-depth", type=int, default=0)
        parser.add_argument("--mem-fraction-static", type=float)
        parser.add_argument("--max-total-tokens", type=int)
        parser.add_argument("--max-running-requests", type=int)
        parser.add_argument("--attention-backend", choices=["aiter", "triton", "torch_native", "dsa"])
        parser.add_argument("--reasoning-parser", choices=["auto", "qwen3", "kimi_k2", "glm45", "gpt-oss"])
        parser.add_argument("--tool-call-parser", choices=["auto", "qwen", "qwen3_coder", "kimi_k2", "glm47", "gpt-oss"])
        parser.add_argument("--chat-template")
        parser.add_argument("--watchdog-timeout", type=float, default=300)
        parser.add_argument("--enable-metrics", action="store_true")
        parser.add_argument("--enable-cache-report", action="store_true")
        parser.add_argument("--api-key")
        parser.add_argument("--admin-api-key")
        parser.add_argument("--config")
