"""The self-check on real parsers, right, missing and wrong; and keys that nobody sees."""

import json
import signal
from collections.abc import Callable, Mapping

import httpx
import psutil
import pytest
from harness import READY_S, Supervised

pytestmark = pytest.mark.real
Start = Callable[..., Supervised]

FAMILIES = {
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "glm": ("glm45", "glm47"),
    "gpt-oss": ("gpt-oss", "gpt-oss"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_familys_own_parsers_are_proven(start: Start, tiny_models: Mapping[str, str], family: str):
    reasoning, tool_call = FAMILIES[family]
    run = start(
        *("--engine.reasoning_parser", reasoning, "--engine.tool_call_parser", tool_call), model=tiny_models[family]
    )
    with run:
        run.wait_state("ready", READY_S)
        run.signal(signal.SIGTERM)
        assert run.wait(40) == 0


def test_a_missing_tool_parser_is_refused_by_the_plan(start: Start):
    with start("--engine.tool_call_parser", "") as run:
        assert run.wait(30) == 78
        assert "parsers-both" in run.stderr()


def test_a_missing_tool_parser_that_is_ignored_ends_with_the_right_one_named(start: Start):
    with start("--engine.tool_call_parser", "", "--rules.ignore", "parsers-both") as run:
        assert run.wait(READY_S) == 76
        report = run.report()
        assert "no tool-call parser is set" in report["summary"]
        assert "qwen" in report["remedy"]
        assert "get_weather" in " ".join(report["evidence"])
        run.assert_nothing_left()


def test_a_tool_parser_of_another_family_is_refused_by_the_plan(start: Start):
    with start("--engine.tool_call_parser", "kimi_k2") as run:
        assert run.wait(30) == 78
        assert "parser-family" in run.stderr()


def test_a_wrong_tool_parser_that_is_ignored_ends_with_the_right_one_named(start: Start):
    with start("--engine.tool_call_parser", "kimi_k2", "--rules.ignore", "parser-family") as run:
        assert run.wait(READY_S) == 76
        assert "qwen" in run.report()["remedy"]


def test_a_missing_reasoning_parser_is_found_and_the_server_held(start: Start):
    run = start(*("--engine.reasoning_parser", "", "--rules.ignore", "parsers-both", "--prove.on_failure", "hold"))
    with run:
        run.wait_state("held", READY_S)
        assert run.get("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE
        check = run.status()["self_check"]
        assert "qwen3" in json.dumps(check["failures"])
        again = httpx.post(f"http://127.0.0.1:{run.health_port}/prove", trust_env=False)
        assert again.status_code == httpx.codes.ACCEPTED
        run.wait_state("held", 30)
        assert run.ask("hello please")["choices"], "the loaded server is still there"
        run.signal(signal.SIGTERM)
        assert run.wait(40) == 0


def test_keys_reach_the_engine_and_stand_nowhere_else(start: Start):
    run = start()
    key, admin_key = "key-for-clients-0123456789", "key-for-admins-9876543210"
    for name, value in {"api": key, "admin": admin_key}.items():
        (run.directory / name).write_text(value + "\n")
    run.arguments = ["--engine.api_key_file", "api", "--engine.admin_api_key_file", "admin"]
    with run:
        run.wait_state("ready", READY_S)
        models = f"http://127.0.0.1:{run.engine_port}/v1/models"
        assert httpx.get(models, trust_env=False).status_code == httpx.codes.UNAUTHORIZED
        authorized = httpx.get(models, headers={"Authorization": f"Bearer {key}"}, trust_env=False)
        assert authorized.status_code == httpx.codes.OK
        for process in psutil.Process(run.process.pid).children(recursive=True):
            assert not any(secret in " ".join(process.cmdline()) for secret in (key, admin_key))
        shown = run.get("/status").text + run.get("/metrics").text
        run.signal(signal.SIGTERM)
        assert run.wait(40) == 0
        shown += run.stderr() + run.stdout()
        for path in run.run_directory.iterdir():
            if path.name != "engine-keys.yaml":
                shown += path.read_text()
        assert key not in shown
        assert admin_key not in shown
        assert "'api_key': '***'" in shown, "the engine printed its arguments, masked"
