from pathlib import Path

import pytest

from entrypoint.engine.flag_check import FlagProblem, FlagProblemKind, check
from entrypoint.engine.flags import Flag, FlagKind, FlagTable

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "flags-0.5.23.json"


@pytest.fixture(scope="module")
def table():
    return FlagTable.from_json(RECORDED.read_bytes())


def only(problems: tuple[FlagProblem, ...]):
    [problem] = problems
    return problem


def test_a_good_command_line_has_no_problems(table: FlagTable):
    argv = [
        *("--model-path", "Qwen/Qwen3-8B", "--tp-size", "4", "--mem-fraction-static", "0.3", "--trust-remote-code"),
        *("--context-length", "128k", "--chunked-prefill-size", "-1", "--tool-call-parser=qwen3_coder"),
        *("--default-chat-template-kwargs", '{"enable_thinking": false}', "--cuda-graph-backend-decode", "disabled"),
        *("--lora-paths", "--config", "a.yaml", "--api-key=-secret", "--log-requests-level", "2"),
    ]
    assert check(table, argv) == ()


def test_an_ambiguous_abbreviation_names_all_it_could_mean(table: FlagTable):
    problem = only(check(table, ["--pp", "2"]))
    assert problem.kind is FlagProblemKind.AMBIGUOUS
    assert problem.nearest == "--pp-size"
    assert "--pp-size, --pp-max-micro-batch-size or --pp-async-batch-depth" in problem.message


def test_an_abbreviation_is_named_in_full(table: FlagTable):
    problem = only(check(table, ["--tp", "4"]))
    assert (problem.kind, problem.spelling, problem.nearest) == (FlagProblemKind.ABBREVIATED, "--tp", "--tp-size")
    assert not problem.kind.refused


def test_a_value_that_is_no_choice_names_the_nearest_one(table: FlagTable):
    problem = only(check(table, ["--tool-call-parser", "glm46"]))
    assert problem.kind is FlagProblemKind.NOT_A_CHOICE
    assert problem.nearest == "glm47"
    assert "glm45" in problem.message
    assert problem.kind.refused


@pytest.mark.parametrize(
    ("flag", "nearest"),
    [
        ("--max-context-length", "--context-length"),
        ("--mem_fraction_static", "--mem-fraction-static"),
        ("--tool-parser", "--tool-call-parser"),
        ("--zzz-qqq", None),
        ("--nix", None),  # as near to many as two dashes make it
    ],
)
def test_an_unknown_flag_names_the_nearest_one_if_any_is_near(table: FlagTable, flag: str, nearest: str | None):
    problem = only(check(table, [flag, "9"]))
    assert (problem.kind, problem.spelling, problem.nearest) == (FlagProblemKind.UNKNOWN, flag, nearest)
    assert "0.5.23" in problem.message


def test_a_deprecated_flag_names_its_replacement(table: FlagTable):
    problem = only(check(table, ["--disable-cuda-graph"]))
    assert problem.kind is FlagProblemKind.DEPRECATED
    assert problem.nearest == "--cuda-graph-backend-{decode,prefill}=disabled"
    assert not problem.kind.refused


def test_a_deprecated_flag_is_never_the_one_recommended(table: FlagTable):
    assert only(check(table, ["--disabled-cuda-graph"])).nearest != "--disable-cuda-graph"


def test_a_retired_flag_is_refused_with_its_replacement():
    table = FlagTable("1.0", (Flag(("--old",), "old", FlagKind.BARE, retired=True, replacement="--new"),))
    problem = only(check(table, ["--old"]))
    assert (problem.kind, problem.nearest) == (FlagProblemKind.RETIRED, "--new")
    assert problem.kind.refused


@pytest.mark.parametrize("argv", [["--port"], ["--port", "--trust-remote-code"], ["--log-requests-target"]])
def test_a_flag_without_its_value_is_reported(table: FlagTable, argv: list[str]):
    problem = only(check(table, argv))
    assert (problem.kind, problem.spelling) == (FlagProblemKind.NO_VALUE, argv[0])


def test_a_value_that_begins_with_a_dash_is_explained_and_not_shown(table: FlagTable):
    problem = only(check(table, ["--api-key", "-s3cret"]))
    assert problem.kind is FlagProblemKind.NO_VALUE
    assert "--api-key=VALUE" in problem.remedy
    assert "s3cret" not in problem.message + problem.remedy + problem.spelling


def test_an_unknown_word_with_a_dash_after_a_satisfied_flag_is_unknown(table: FlagTable):
    assert only(check(table, ["--port", "1", "-x"])).kind is FlagProblemKind.UNKNOWN


@pytest.mark.parametrize(
    ("argv", "noun"),
    [
        (["--port", "http"], "a whole number"),
        (["--tp-size", "4.0"], "a whole number"),
        (["--mem-fraction-static", "30%"], "a number"),
        (["--context-length", "128q"], "128k"),
        (["--default-chat-template-kwargs", "{enable: 1}"], "JSON"),
        (["--port="], "a whole number"),
    ],
)
def test_a_value_of_the_wrong_type_is_reported(table: FlagTable, argv: list[str], noun: str):
    problem = only(check(table, argv))
    assert problem.kind is FlagProblemKind.BAD_VALUE
    assert noun in problem.message


@pytest.mark.parametrize("size", ["4096", "128k", "25.6k", "1Mi"])
def test_a_size_may_have_a_unit(table: FlagTable, size: str):
    assert check(table, ["--context-length", size]) == ()


def test_a_number_is_a_choice_however_it_is_written(table: FlagTable):
    assert check(table, ["--log-requests-level", "02"]) == ()
    assert only(check(table, ["--log-requests-level", "7"])).kind is FlagProblemKind.NOT_A_CHOICE


def test_each_of_several_values_is_checked(table: FlagTable):
    flag = next(f for f in table.flags if f.kind is FlagKind.SEVERAL and f.type_name == "int" and not f.choices)
    assert only(check(table, [flag.spellings[0], "1", "x", "2"])).kind is FlagProblemKind.BAD_VALUE


def test_a_converter_of_the_engines_own_is_left_to_the_engine():
    flag = Flag(("--mode",), "mode", FlagKind.ONE, type_name="parse_mode", choices=("a",))
    assert check(FlagTable("1.0", (flag,)), ["--mode", "A"]) == ()


def test_a_bare_flag_with_an_attached_value_is_reported(table: FlagTable):
    assert only(check(table, ["--trust-remote-code=true"])).kind is FlagProblemKind.BAD_VALUE


def test_words_that_belong_to_no_flag_are_counted_and_not_shown(table: FlagTable):
    problem = only(check(table, ["--api-key", "two", "words"]))
    assert (problem.kind, problem.spelling) == (FlagProblemKind.UNKNOWN, "--api-key")
    assert "1 word(s)" in problem.message
    assert "words" not in problem.message.replace("word(s)", "")


def test_words_before_the_first_flag_are_reported(table: FlagTable):
    assert only(check(table, ["serve", "--port", "1"])).spelling == ""


def test_a_long_value_is_cut_in_the_message(table: FlagTable):
    assert len(only(check(table, ["--port", "x" * 5000])).message) < 200


@pytest.mark.parametrize("argv", [["--config=a.yaml"], ["--conf", "a.yaml"]])
def test_a_configuration_file_that_the_engine_would_overlook_is_reported(table: FlagTable, argv: list[str]):
    assert FlagProblemKind.IGNORED in {problem.kind for problem in check(table, argv)}


def test_problems_come_in_the_order_of_the_command_line(table: FlagTable):
    assert [problem.spelling for problem in check(table, ["--pp", "2", "--nonsense-flag", "--tp", "1"])] == [
        "--pp",
        "--nonsense-flag",
        "--tp",
    ]
