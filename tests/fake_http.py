"""The endpoints of SGLang 0.5.23 that the supervisor asks, with the real one's answers."""

import argparse
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_answers import Answer, RefusedError, answer_to, chunks, completion, generated
from fake_log import log
from fake_switches import Switches

OPEN_PATHS = ("/health", "/ready", "/metrics")
"""What the engine shows without a key; /ping is not among them."""


class Serving:
    """What the endpoints know.

    Args:
        arguments: The engine's flags.
        switches: Returns the switches as they are now.
    """

    requests_most = 128

    def __init__(self, arguments: argparse.Namespace, switches: Callable[[], Switches]) -> None:
        self.arguments = arguments
        self.switches = switches
        self.ready = False
        self.draining = False
        self.pool_tokens: int = arguments.max_total_tokens or 8192
        self.model: str = arguments.served_model_name or arguments.model_path
        self._lock = threading.Lock()
        self._requests: list[str] = []

    def requests(self) -> list[str]:
        """Return the ids of requests in flight."""
        with self._lock:
            return list(self._requests)

    @contextmanager
    def in_flight(self) -> Iterator[str]:
        """Count a request while it lasts."""
        request_id = uuid.uuid4().hex
        with self._lock:
            self._requests.append(request_id)
        try:
            yield request_id
        finally:
            with self._lock:
                self._requests.remove(request_id)

    def flag_status(self) -> int:
        """Return what the cheap probes answer."""
        if self.draining or not self.ready:
            return HTTPStatus.SERVICE_UNAVAILABLE
        return self.switches().ready_status

    def model_info(self) -> dict[str, Any]:
        """Return /model_info."""
        return {
            "model_path": self.arguments.model_path,
            "served_model_name": self.model,
            "tokenizer_path": self.arguments.tokenizer_path or self.arguments.model_path,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": "default",
            "load_format": "auto",
            "reasoning_parser": self.arguments.reasoning_parser,
            "tool_call_parser": self.arguments.tool_call_parser,
            "disaggregation_mode": "null",
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": "qwen3",
            "architectures": ["Qwen3ForCausalLM"],
        }

    def models(self) -> dict[str, Any]:
        """Return /v1/models."""
        length = self.arguments.context_length or self.pool_tokens
        model = {"id": self.model, "object": "model", "created": int(time.time()), "owned_by": "sglang"}
        return {"object": "list", "data": [{**model, "root": self.model, "parent": None, "max_model_len": length}]}

    def loads(self) -> dict[str, Any]:
        """Return /v1/loads with its core section."""
        running = len(self.requests())
        used = min(100 * running, self.pool_tokens)
        rank = {
            "timestamp": time.time(),
            "dp_rank": 0,
            "num_running_reqs": running,
            "num_waiting_reqs": 0,
            "num_waiting_uncached_tokens": 0,
            "num_used_tokens": used,
            "num_total_tokens": used,
            "num_active_tokens": used,
            "num_prealloc_ready_tokens": 0,
            "max_total_num_tokens": self.pool_tokens,
            "max_running_requests": self.requests_most,
            "token_usage": round(used / self.pool_tokens, 4),
            "gen_throughput": 0.0,
            "cache_hit_rate": 0.0,
            "utilization": 0.0,
            "total_prefill_uncached_tokens": 23,
            "total_prefill_busy_us": 33640,
            "decode_moments": [6.0, 6.0, 37726.0, 6.0, 37726.0, 6.0],
        }
        return {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
            "version": "0.5.23",
            "accelerator": None,
            "num_accelerators": 1,
            "loads": [{**rank, **self.switches().loads}],
        }

    def metrics(self) -> str:
        """Return /metrics: two gauges of many."""
        labels = f'{{engine_type="unified",model_name="{self.model}",moe_ep_rank="0",pp_rank="0",tp_rank="0"}}'
        return (
            "# HELP sglang:num_running_reqs The number of running requests.\n"
            "# TYPE sglang:num_running_reqs gauge\n"
            f"sglang:num_running_reqs{labels} {float(len(self.requests()))}\n"
            "# HELP sglang:token_usage The token usage.\n"
            "# TYPE sglang:token_usage gauge\n"
            f"sglang:token_usage{labels} 0.0\n"
        )


class Server(ThreadingHTTPServer):
    """The engine's port.

    Args:
        address: Host and port.
        serving: What the endpoints know.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], serving: Serving) -> None:
        self.serving = serving
        super().__init__(address, Handler)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Answer a probe or a question."""
        path = self.path.partition("?")[0]
        if not self._admitted(path):
            return
        serving = self.server.serving
        if path in ("/ready", "/ping", "/health", "/health_generate"):
            if serving.draining and path.startswith("/health"):
                log("Health check request received during shutdown. Returning 503.")
            self._reply(serving.flag_status())
            return
        if path == "/metrics":
            self._metrics()
            return
        answers = {"/model_info": serving.model_info, "/v1/models": serving.models, "/v1/loads": serving.loads}
        if path in answers:
            self._reply(HTTPStatus.OK, answers[path]())
        else:
            self._reply(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """Answer a request for inference."""
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        if not self._admitted(path):
            return
        if path not in ("/v1/chat/completions", "/generate"):
            self._reply(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})
            return
        serving = self.server.serving
        switches = serving.switches()
        with serving.in_flight() as request_id:
            if switches.inference_status != HTTPStatus.OK:
                time.sleep(switches.inference_s)
                self._refuse(switches.inference_status, "The fake engine was told to refuse.")
                return
            if path == "/generate":
                time.sleep(switches.inference_s)
                self._reply(HTTPStatus.OK, generated(request_id))
                return
            self._chat(request, request_id, switches)

    def _chat(self, request: dict[str, Any], request_id: str, switches: Switches) -> None:
        serving = self.server.serving
        try:
            answer = answer_to(request, serving.arguments, switches)
        except RefusedError as refusal:
            self._refuse(HTTPStatus.BAD_REQUEST, str(refusal))
            return
        log(
            f"Prefill batch, #new-seq: 1, #new-token: {answer.prompt_tokens}, #cached-token: 0, token usage: 0.00, "
            "#running-req: 0, #queue-req: 0, #pending-token: 0, cpu graph: False, input throughput (token/s): 20.26"
        )
        if request.get("stream"):
            self._stream(request, request_id, answer, switches.inference_s)
        else:
            time.sleep(switches.inference_s)
            self._reply(HTTPStatus.OK, completion(request_id, serving.model, answer))

    def _stream(self, request: dict[str, Any], request_id: str, answer: Answer, lasts_s: float) -> None:
        usage = bool((request.get("stream_options") or {}).get("include_usage"))
        events = [json.dumps(chunk, separators=(",", ":")) for chunk in self._chunks(request_id, answer, usage=usage)]
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in [*events, "[DONE]"]:
            time.sleep(lasts_s / len(events))
            data = f"data: {event}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunks(self, request_id: str, answer: Answer, *, usage: bool) -> list[dict[str, Any]]:
        return chunks(request_id, self.server.serving.model, answer, usage=usage)

    def _admitted(self, path: str) -> bool:
        key = self.server.serving.arguments.api_key
        if not key or path.startswith(OPEN_PATHS) or self.headers.get("authorization") == f"Bearer {key}":
            return True
        self._reply(HTTPStatus.UNAUTHORIZED, {"error": "Unauthorized"})
        return False

    def _metrics(self) -> None:
        if not self.server.serving.arguments.enable_metrics:
            self._reply(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})
            return
        body = self.server.serving.metrics().encode()
        self._send(HTTPStatus.OK, body, "text/plain; version=0.0.4; charset=utf-8")

    def _refuse(self, status: int, message: str) -> None:
        kind = "BadRequestError" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "InternalServerError"
        self._reply(status, {"object": "error", "message": message, "type": kind, "param": None, "code": status})

    def _reply(self, status: int, document: dict[str, Any] | None = None) -> None:
        if document is None:
            self._send(status, b"", None)
        else:
            self._send(status, json.dumps(document, separators=(",", ":")).encode(), "application/json")

    def _send(self, status: int, body: bytes, content_type: str | None) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if content_type:
            self.send_header("content-type", content_type)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print the access line as uvicorn does."""
        del size
        host, port = self.client_address[:2]
        log(f'INFO:     {host}:{port} - "{self.requestline}" {int(code)} {HTTPStatus(int(code)).phrase}')

    def version_string(self) -> str:
        """Name the server as the real one does."""
        return "uvicorn"
