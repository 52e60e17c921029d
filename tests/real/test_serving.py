"""The main job: a server that is proven before it is ready, looked at while it serves."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from harness import SUPERVISE, Supervised

pytestmark = pytest.mark.real

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def supervise(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SUPERVISE, *words],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_ready_server_answers_with_a_tool_call_and_a_thought(served: Supervised):
    message = served.ask("what is the weather in Zurich right now ?", tools=[WEATHER])["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "get_weather"
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Zurich"}
    assert message["reasoning_content"].strip()


def test_the_states_of_a_start_come_in_their_order(served: Supervised):
    states = served.states()
    assert states[0] == "checking"
    assert states[-1] == "ready"
    order = ["checking", "warming", "waiting", "starting", "loading", "engine-up", "proving", "ready"]
    assert [state for state in states if state in order] == order


def test_status_shows_what_the_engine_printed(served: Supervised):
    status = served.status()
    assert status["ready"] is True
    assert status["engine"]["pool_tokens"] == 8192
    assert status["engine"]["attention_backend"] == "torch_native"
    assert status["self_check"]["passed"] is True
    assert {exchange["name"] for exchange in status["self_check"]["exchanges"]} == {
        "tool",
        "tool-stream",
        "plain",
        "plain-stream",
    }


def test_metrics_are_served(served: Supervised):
    text = served.get("/metrics").text
    assert "supervise_ready 1.0" in text
    assert "supervise_engine_pool_tokens 8192.0" in text


def test_the_endpoint_file_says_where_the_server_is(served: Supervised):
    path = served.run_directory / "endpoint.json"
    endpoint = json.loads(path.read_text())
    assert endpoint["url"] == f"http://127.0.0.1:{served.engine_port}/v1"
    assert endpoint["model"] == "tiny"
    assert path.stat().st_mode & 0o777 == 0o600


def test_verify_proves_the_engine_by_its_url(served: Supervised):
    result = supervise("verify", f"http://127.0.0.1:{served.engine_port}", "--max-tokens", "256")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed" in result.stdout


def test_wait_prints_lines_that_a_shell_evaluates(served: Supervised):
    result = supervise("wait", "--export", str(served.run_directory))
    assert result.returncode == 0, result.stderr
    shell = subprocess.run(
        ["sh", "-c", f'{result.stdout}\nprintf %s "$OPENAI_BASE_URL"'], capture_output=True, text=True, check=True
    )
    assert shell.stdout == f"http://127.0.0.1:{served.engine_port}/v1"


def test_a_second_run_on_the_same_port_is_refused_before_it_starts_an_engine(
    served: Supervised, free_ports: Iterator[int], tmp_path: Path
):
    arguments = ["--health.port", str(next(free_ports))]
    run = Supervised(arguments, served.environment, tmp_path, served.engine_port, 0)
    with run:
        assert run.wait(60) == 69
        assert f"{served.engine_port}" in run.report()["summary"]
        assert "starting" not in run.states()


def test_the_dry_run_checks_flags_against_the_list_of_this_engine(served: Supervised):
    environment = {name: value for name, value in served.environment.items() if name.startswith("SUPERVISE_")}
    good = supervise("--dry-run", **environment)
    assert good.returncode == 0, good.stderr
    assert "unchecked" not in good.stderr
    bad = supervise("--dry-run", "--engine.tool_call_parser", "qwen3_codr", **environment)
    assert bad.returncode == 78
    assert "qwen3_coder" in bad.stderr


def test_the_log_file_is_private_and_has_the_engines_lines(served: Supervised):
    log = served.run_directory / "server-0.log"
    assert log.stat().st_mode & 0o777 == 0o600
    text = log.read_text()
    assert "The server is fired up and ready to roll!" in text
    assert "\r" not in text


def test_the_engine_runs_in_its_own_process_group_and_is_the_first_to_be_killed_for_memory(served: Supervised):
    (main,) = served.named("warden.py").children()
    assert os.getpgid(main.pid) == main.pid
    assert os.getpgid(served.process.pid) != main.pid
    assert Path(f"/proc/{main.pid}/oom_score_adj").read_text().strip() == "500"


def test_readyz_costs_the_engine_nothing(served: Supervised):
    log = served.run_directory / "server-0.log"
    before = log.read_text().count('"GET /ready')
    for _ in range(50):
        assert served.get("/readyz").status_code == httpx.codes.OK
    assert log.read_text().count('"GET /ready') == before
