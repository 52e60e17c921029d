"""The engine's command line: which flags it holds, in which order, and how values are written."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.engine.flag_check import check
from entrypoint.engine.flags import FlagTable
from entrypoint.plan.arguments import Argument, arguments, command, destination, meaning, words
from entrypoint.plan.plan import Plan
from entrypoint.settings.schema import Settings

Read = Callable[[str], Settings]

EVERYTHING = """
[model]
path = "/m"
served_name = "tiny"
revision = "main"
context_length = 4096
trust_remote_code = true
[engine]
host = "0.0.0.0"
port = 8000
device = "cpu"
mem_fraction_static = 0.306
attention_backend = "triton"
reasoning_parser = "qwen3"
tool_call_parser = "qwen"
watchdog_timeout_s = 60
max_running_requests = 8
[engine.args]
page-size = 16
[topology]
tensor_parallel = 4
pipeline_parallel = 2
"""


def argv(settings: Settings, table: FlagTable | None = None) -> tuple[str, ...]:
    return words(arguments(settings, table), ())


def flags(settings: Settings, table: FlagTable | None = None) -> list[str]:
    return [argument.flag for argument in arguments(settings, table)]


def test_every_setting_becomes_its_flag_in_a_fixed_order_and_args_come_last(settings: Read):
    assert argv(settings(EVERYTHING)) == (
        *("--model-path", "/m", "--served-model-name", "tiny", "--revision", "main", "--context-length", "4096"),
        *("--trust-remote-code", "--host", "0.0.0.0", "--port", "8000", "--device", "cpu"),
        *("--tp-size", "4", "--pp-size", "2", "--mem-fraction-static", "0.306", "--attention-backend", "triton"),
        *("--reasoning-parser", "qwen3", "--tool-call-parser", "qwen", "--watchdog-timeout", "60"),
        *("--max-running-requests", "8", "--enable-metrics", "--enable-cache-report", "--page-size", "16"),
    )


def test_every_named_flag_is_a_full_name_that_the_engine_knows(settings: Read, table: FlagTable):
    assert check(table, argv(settings(EVERYTHING), table)) == ()


def test_what_is_not_set_is_left_to_the_engine(settings: Read):
    assert flags(settings("")) == [
        *("--host", "--port", "--reasoning-parser", "--tool-call-parser", "--watchdog-timeout"),
        *("--max-running-requests", "--enable-metrics", "--enable-cache-report"),
    ]


@pytest.mark.parametrize(
    ("toml", "flag"),
    [
        ('engine.reasoning_parser = ""', "--reasoning-parser"),
        ('engine.watchdog_timeout_s = ""', "--watchdog-timeout"),
        ("engine.enable_metrics = false", "--enable-metrics"),
    ],
)
def test_an_empty_text_and_false_leave_a_flag_out(settings: Read, toml: str, flag: str):
    assert flag in flags(settings(""))
    assert flag not in flags(settings(toml))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("true", ("--x",)),
        ("false", ()),
        ('""', ()),
        ("8", ("--x", "8")),
        ("-1", ("--x", "-1")),
        ("0.25", ("--x", "0.25")),
        ('"two words"', ("--x", "two words")),
        ('["a", "b c", 3]', ("--x", "a", "b c", "3")),
        ('"-dash"', ("--x=-dash",)),
    ],
)
def test_a_free_flag_is_written_as_its_value_asks(settings: Read, value: str, written: tuple[str, ...]):
    assert argv(settings(f"engine.args.x = {value}")) == argv(settings("")) + written


def test_a_table_becomes_json(settings: Read):
    *_, flag, value = argv(settings('engine.args.x = {think = false, name = "é"}'))
    assert (flag, json.loads(value)) == ("--x", {"think": False, "name": "é"})


def test_a_value_that_begins_with_a_dash_reaches_the_engine(settings: Read, table: FlagTable):
    line = argv(settings('engine.args.served-model-name = "-odd"'), table)
    assert table.destinations(line)["served_model_name"] == ("-odd",)


@pytest.mark.parametrize("spelling", ["tensor-parallel-size", "tp-size", "tp"])
@pytest.mark.parametrize("known", [True, False])
def test_a_free_flag_replaces_the_setting_that_means_the_same(
    settings: Read, table: FlagTable, spelling: str, *, known: bool
):
    wanted = settings(f"topology.tensor_parallel = 4\nengine.args.{spelling} = 8")
    written = flags(wanted, table if known else None)
    assert f"--{spelling}" in written
    assert len({"--tp-size", "--tp", "--tensor-parallel-size"} & set(written)) == 1
    assert meaning(argv(wanted), table)["tp_size"] == ("8",)


def test_a_free_flag_set_to_nothing_takes_the_setting_with_it(settings: Read):
    assert "--tp-size" not in flags(settings('topology.tensor_parallel = 4\nengine.args.tp = ""'))


def test_a_free_flag_that_is_only_similar_replaces_nothing(settings: Read):
    written = flags(settings("topology.tensor_parallel = 4\nengine.args.tp-size-x = 8"))
    assert {"--tp-size", "--tp-size-x"} <= set(written)


def test_each_flag_remembers_the_setting_that_it_comes_from(settings: Read):
    origins = {argument.flag: argument.setting for argument in arguments(settings(EVERYTHING), None)}
    assert origins["--tp-size"] == "topology.tensor_parallel"
    assert origins["--page-size"] == "engine.args.page-size"


def test_an_unknown_flag_sets_what_it_is_called(table: FlagTable):
    assert destination("--some-flag", table) == destination("--some-flag", None) == "some_flag"


def test_words_after_the_separator_come_last_and_win(planned: Callable[..., Plan], table: FlagTable):
    plan = planned("engine.port = 8000", ("--port", "8001"), flags=table)
    assert plan.argv[-2:] == ("--port", "8001")
    assert plan.engine_port == 8001


@pytest.mark.parametrize("key", ['api_key = "s3cret-key"', 'admin_api_key = "s3cret-key"'])
def test_keys_reach_the_engine_in_a_file_and_never_in_the_command_line(planned: Callable[..., Plan], key: str):
    plan = planned(f"[engine]\n{key}")
    assert plan.key_file == plan.run_directory / "engine-keys.yaml"
    assert plan.argv[3:5] == ("--config", str(plan.key_file))
    assert "s3cret-key" not in " ".join(plan.argv)


def test_without_a_key_there_is_no_file(planned: Callable[..., Plan]):
    plan = planned()
    assert plan.key_file is None
    assert "--config" not in plan.argv


def test_the_command_starts_the_module_with_the_engines_python():
    assert command(Path("/venv/python"), ("--port", "1"), None) == (
        *("/venv/python", "-m", "sglang.launch_server"),
        *("--port", "1"),
    )


def test_an_argument_is_its_flag_and_its_values():
    assert Argument("--x", ("1", "2"), "engine.args.x").words == ("--x", "1", "2")
