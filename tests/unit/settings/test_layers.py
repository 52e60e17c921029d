"""Layers: which one wins, where a value came from, and what is said about a wrong one."""

import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings.files import LARGEST_BYTES, parse
from entrypoint.settings.layers import Layer, Origin, ResolvedSettings, load

Load = Callable[..., ResolvedSettings]


@pytest.fixture
def resolve(tmp_path: Path) -> Load:
    """Load settings in an empty directory: ``toml`` becomes its supervise.toml, the rest are the layers above."""

    def resolve(
        toml: str | bytes | None = None,
        *,
        profile: str | None = None,
        config_files: Sequence[Path] = (),
        overrides: Sequence[tuple[str, str]] = (),
        environ: Mapping[str, str] | None = None,
        extra_arguments: Sequence[str] = (),
    ) -> ResolvedSettings:
        if toml is not None:
            (tmp_path / "supervise.toml").write_bytes(toml if isinstance(toml, bytes) else toml.encode())
        return load(
            profile=profile,
            config_files=config_files,
            overrides=overrides,
            extra_arguments=extra_arguments,
            environ=environ or {},
            cwd=tmp_path,
            etc=tmp_path / "etc.toml",
        )

    return resolve


@pytest.fixture
def refused(resolve: Load) -> Callable[..., str]:
    """Load settings that must be refused, and return the whole error as a user reads it."""

    def refused(*arguments: object, **layers: object) -> str:
        with pytest.raises(SuperviseError) as caught:
            resolve(*arguments, **layers)
        assert caught.value.code is ExitCode.CONFIGURATION
        assert caught.value.remedy
        assert caught.value.__context__ is None, "the error it came from may show secrets"
        return str(caught.value)

    return refused


# Precedence


def test_without_any_layer_the_defaults_hold(resolve: Load):
    resolved = resolve()
    assert resolved.settings.engine.port == 30000
    assert resolved.origin("engine.port") == Origin(Layer.DEFAULT, "default")
    assert resolved.files == ()


def test_a_profile_beats_the_defaults(resolve: Load):
    resolved = resolve(profile="tiny")
    assert resolved.settings.engine.port == 31000
    assert resolved.origin("engine.port") == Origin(Layer.PROFILE, "profile tiny")


def test_a_file_beats_the_profile(resolve: Load, tmp_path: Path):
    resolved = resolve("[engine]\n\nport = 31001\n", profile="tiny")
    assert resolved.settings.engine.port == 31001
    assert resolved.origin("engine.port") == Origin(Layer.FILE, f"{tmp_path}/supervise.toml:3")


def test_a_later_file_beats_an_earlier_one_key_by_key(resolve: Load, tmp_path: Path):
    (tmp_path / "a.toml").write_text("[engine]\nport = 1001\nhost = 'a'\n")
    (tmp_path / "b.toml").write_text("[engine]\nport = 1002\n")
    resolved = resolve(config_files=[Path("a.toml"), tmp_path / "b.toml"])
    assert (resolved.settings.engine.port, resolved.settings.engine.host) == (1002, "a")
    assert resolved.files == (tmp_path / "a.toml", tmp_path / "b.toml")
    assert resolved.origin("engine.host").source == f"{tmp_path}/a.toml:3"


def test_the_environment_beats_a_file(resolve: Load):
    resolved = resolve("engine.port = 31001", environ={"SUPERVISE_ENGINE__PORT": "31002"})
    assert resolved.settings.engine.port == 31002
    assert resolved.origin("engine.port") == Origin(Layer.ENVIRONMENT, "SUPERVISE_ENGINE__PORT")


def test_the_command_line_beats_the_environment(resolve: Load):
    resolved = resolve(environ={"SUPERVISE_ENGINE__PORT": "31002"}, overrides=[("engine.port", "31003")])
    assert resolved.settings.engine.port == 31003
    assert resolved.origin("engine.port") == Origin(Layer.COMMAND_LINE, "--engine.port")


def test_of_a_repeated_option_the_last_counts(resolve: Load):
    assert resolve(overrides=[("engine.port", "1"), ("engine.port", "2")]).settings.engine.port == 2


def test_an_absent_key_takes_the_layer_below(resolve: Load):
    resolved = resolve("[engine]\nhost = '0.0.0.0'\n", profile="tiny")
    assert resolved.settings.engine.attention_backend == "torch_native"


def test_an_empty_text_omits_a_flag_that_a_weaker_layer_sets(resolve: Load):
    resolved = resolve(profile="tiny", environ={"SUPERVISE_ENGINE__ATTENTION_BACKEND": ""})
    assert resolved.settings.engine.attention_backend == ""
    assert resolved.origin("engine.attention_backend").source == "SUPERVISE_ENGINE__ATTENTION_BACKEND"


@pytest.mark.parametrize("name", ["context_length", "mem_fraction_static"])
def test_an_empty_text_omits_a_number_too(resolve: Load, name: str):
    section = "model" if name == "context_length" else "engine"
    resolved = resolve(f"[{section}]\n{name} = ''\n", profile="tiny")
    assert getattr(getattr(resolved.settings, section), name) == ""


def test_an_empty_text_unsets_an_optional_setting_that_is_no_flag(resolve: Load):
    resolved = resolve("engine.api_key_file = '/a'\n", overrides=[("engine.api_key_file", "")])
    assert resolved.settings.engine.api_key_file is None
    assert resolved.origin("engine.api_key_file").layer is Layer.COMMAND_LINE


def test_an_empty_text_is_no_port(refused: Callable[..., str]):
    assert "engine.port: expected a whole number from 1 to 65535, got ''" in refused("engine.port = ''")


@pytest.mark.parametrize(
    ("toml", "environ", "profile", "source"),
    [
        ("profile = 'nope'", {"SUPERVISE_PROFILE": "nope"}, "tiny", "--profile"),
        ("profile = 'nope'", {"SUPERVISE_PROFILE": "tiny"}, None, "SUPERVISE_PROFILE"),
        ("profile = 'tiny'", {}, None, "supervise.toml:1"),
    ],
)
def test_the_strongest_layer_that_names_a_profile_wins(
    resolve: Load, toml: str, environ: dict[str, str], profile: str | None, source: str
):
    resolved = resolve(toml, environ=environ, profile=profile)
    assert resolved.settings.model.served_name == "tiny"
    assert resolved.origin("profile").source.endswith(source)


def test_a_profile_can_be_unset_by_a_stronger_layer(resolve: Load):
    resolved = resolve("profile = 'tiny'", environ={"SUPERVISE_PROFILE": ""})
    assert resolved.settings.profile is None
    assert resolved.settings.engine.port == 30000


def test_extra_arguments_are_handed_through_unread(resolve: Load):
    assert resolve(extra_arguments=["--any", "thing"]).extra_arguments == ("--any", "thing")


def test_the_origin_of_what_is_no_setting_is_an_error(resolve: Load):
    with pytest.raises(KeyError):
        resolve().origin("engine.prot")


# The open tables engine.args and engine.env


def test_flags_merge_key_by_key_and_dashes_equal_underscores(resolve: Load):
    resolved = resolve(
        "[engine.args]\nlanguage_only = true\nkept = 1\n",
        profile="tiny",
        environ={"SUPERVISE_ENGINE__ARGS": '{"language-only": false, "levels": [1, 2]}'},
        overrides=[("engine.args.max_total_tokens", "99")],
    )
    assert resolved.settings.engine.args == {
        "language-only": False,
        "kept": 1,
        "levels": [1, 2],
        "max-total-tokens": 99,
    }
    assert resolved.origin("engine.args.language-only").source == "SUPERVISE_ENGINE__ARGS"
    assert resolved.origin("engine.args.kept").source.endswith("supervise.toml:3")


def test_a_flag_written_in_both_spellings_in_one_file_is_an_error(refused: Callable[..., str]):
    report = refused("[engine.args]\nlanguage_only = true\nlanguage-only = false\n")
    assert "supervise.toml:3: engine.args.language-only: set a second time, after" in report


@pytest.mark.parametrize(
    "toml",
    [
        '[logs]\ndir = "a\\u0000b"\n',
        '[engine.args]\nx = ["a", "\\u0000"]\n',
        '[engine.args]\nx = {y = {z = "\\u0000"}}\n',
    ],
)
def test_a_text_that_ends_before_its_end_is_an_error(refused: Callable[..., str], toml: str):
    assert "supervise.toml:2: " in refused(toml)
    assert "the text holds a NUL character" in refused(toml)


def test_a_text_that_only_speaks_of_nul_is_none(resolve: Load):
    assert resolve("[logs]\ndir = 'a\\u0000b'\n").settings.logs.dir == Path("a\\u0000b")


@pytest.mark.parametrize("name", ["A=B", ""])
def test_a_variable_that_none_can_be_called_is_an_error(refused: Callable[..., str], name: str):
    assert "no environment variable can have this name" in refused(f'[engine.env]\n"{name}" = "c"\n')


def test_a_flag_may_hold_what_a_variables_name_may_not(resolve: Load):
    assert resolve('[engine.args]\n"a=b" = "c=d"\n').settings.engine.args == {"a=b": "c=d"}


def test_variables_of_the_engine_keep_their_case_and_their_underscores(resolve: Load):
    resolved = resolve(
        "[engine.env]\nlower_case = 'x'\n",
        environ={"SUPERVISE_ENGINE__ENV": '{"Mixed": "a"}', "SUPERVISE_ENGINE__ENV__My__Own": "b"},
        overrides=[("engine.env.FOO", "1"), ("engine.env.A.B", "c")],
    )
    assert resolved.settings.engine.env == {"lower_case": "x", "Mixed": "a", "My__Own": "b", "FOO": "1", "A.B": "c"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("8192", 8192),
        ("0.5", 0.5),
        ("1.10", "1.10"),
        ("1e3", "1e3"),
        ("NaN", "NaN"),
        ("null", "null"),
        ("", ""),
        ("bfloat16", "bfloat16"),
        ("[1, 2]", [1, 2]),
        ('{"a": 1}', {"a": 1}),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_flag_given_as_text_becomes_a_value_only_where_nothing_is_lost(resolve: Load, text: str, value: object):
    given = resolve(overrides=[("engine.args.x", text)]).settings.engine.args["x"]
    assert given == value
    assert type(given) is type(value)


def test_flags_can_be_variables_of_their_own(resolve: Load):
    resolved = resolve(environ={"SUPERVISE_ENGINE__ARGS__LANGUAGE_ONLY": "true"})
    assert resolved.settings.engine.args == {"language-only": True}


# The environment


def test_a_whole_section_can_be_json_and_a_single_variable_beats_it(resolve: Load):
    resolved = resolve(environ={"SUPERVISE_ENGINE": '{"port": 1, "host": "h"}', "SUPERVISE_ENGINE__PORT": "2"})
    assert (resolved.settings.engine.port, resolved.settings.engine.host) == (2, "h")
    assert resolved.origin("engine.host").source == "SUPERVISE_ENGINE"


def test_an_unknown_variable_names_the_nearest_one(refused: Callable[..., str]):
    report = refused(environ={"SUPERVISE_ENGINE__PROT": "1"})
    assert report.startswith("SUPERVISE_ENGINE__PROT: ")
    assert "Did you mean SUPERVISE_ENGINE__PORT?" in report


@pytest.mark.parametrize("name", ["SUPERVISE_", "SUPERVISE_FOO", "SUPERVISE_ENGINE__PORT__X", "SUPERVISE___"])
def test_every_unknown_variable_of_ours_is_an_error(refused: Callable[..., str], name: str):
    assert refused(environ={name: "1"}).startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["SUPERVISOR_X", "ENGINE__PORT", "supervise_engine__port", "MY_SUPERVISE_FOO"])
def test_variables_of_others_are_none_of_ours(resolve: Load, name: str):
    assert resolve(environ={name: "1"}).settings.engine.port == 30000


@pytest.mark.parametrize("text", ["a b", "a,b", " a , b,", '["a", "b"]'])
def test_a_list_may_be_words_as_well_as_json(resolve: Load, text: str):
    assert resolve(environ={"SUPERVISE_RULES__IGNORE": text}).settings.rules.ignore == {"a", "b"}
    assert resolve(overrides=[("rules.ignore", text)]).settings.rules.ignore == {"a", "b"}


def test_an_empty_text_is_an_empty_list(resolve: Load):
    assert resolve('rules.ignore = ["a"]', overrides=[("rules.ignore", "")]).settings.rules.ignore == frozenset()


def test_the_token_of_a_run_is_no_setting(resolve: Load):
    assert resolve(environ={"SUPERVISE_TOKEN": "s3cret"}).settings.engine.port == 30000


def test_what_is_only_similar_to_the_token_of_a_run_is_an_error(refused: Callable[..., str]):
    assert refused(environ={"SUPERVISE_TOKENS": "s3cret"}).startswith("SUPERVISE_TOKENS: ")


def test_text_that_should_be_json_and_is_none_is_an_error(refused: Callable[..., str]):
    report = refused(environ={"SUPERVISE_RULES__IGNORE": "[port-taken"})
    assert "SUPERVISE_RULES__IGNORE: rules.ignore: expected JSON" in report
    assert '["one", "two"]' in report


# The command line


def test_an_unknown_option_names_the_nearest_one(refused: Callable[..., str]):
    report = refused(overrides=[("model.contxt_length", "1")])
    assert report.startswith("--model.contxt_length: model.contxt_length: there is no such setting")
    assert "Did you mean --model.context_length?" in report


# Which files


def test_the_variable_names_the_file_before_the_working_directory(resolve: Load, tmp_path: Path):
    (tmp_path / "named.toml").write_text("engine.port = 7")
    resolved = resolve("engine.port = 8", environ={"SUPERVISE_CONFIG": "named.toml"})
    assert resolved.settings.engine.port == 7
    assert resolved.files == (tmp_path / "named.toml",)


def test_the_working_directory_comes_before_the_machine(resolve: Load, tmp_path: Path):
    (tmp_path / "etc.toml").write_text("engine.port = 7\nhealth.port = 9")
    resolved = resolve("engine.port = 8")
    assert (resolved.settings.engine.port, resolved.settings.health.port) == (8, 30900)
    assert resolved.files == (tmp_path / "supervise.toml",)


def test_the_machine_has_the_last_word(resolve: Load, tmp_path: Path):
    (tmp_path / "etc.toml").write_text("engine.port = 7")
    assert resolve().files == (tmp_path / "etc.toml",)


def test_files_of_the_command_line_leave_all_others_unread(resolve: Load, tmp_path: Path):
    (tmp_path / "mine.toml").write_text("health.port = 9")
    resolved = resolve(
        "engine.port = 8", config_files=[Path("mine.toml")], environ={"SUPERVISE_CONFIG": "missing.toml"}
    )
    assert (resolved.settings.engine.port, resolved.settings.health.port) == (30000, 9)


def test_an_empty_variable_names_no_file(resolve: Load):
    assert resolve("engine.port = 8", environ={"SUPERVISE_CONFIG": ""}).settings.engine.port == 8


def test_a_named_file_that_is_missing_is_an_error(refused: Callable[..., str], tmp_path: Path):
    report = refused(environ={"SUPERVISE_CONFIG": "gone.toml"})
    assert f"{tmp_path}/gone.toml: the file does not exist" in report


def test_a_link_to_nothing_in_the_working_directory_is_an_error(refused: Callable[..., str], tmp_path: Path):
    (tmp_path / "supervise.toml").symlink_to(tmp_path / "gone")
    assert "the file does not exist" in refused()


def test_a_directory_is_no_file(refused: Callable[..., str], tmp_path: Path):
    (tmp_path / "supervise.toml").mkdir()
    assert "this is a directory" in refused()


def test_an_unreadable_file_is_an_error(refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "supervise.toml").touch()
    monkeypatch.setattr(Path, "open", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
    assert "cannot be read: Permission denied" in refused()


def test_a_file_behind_a_closed_directory_is_not_passed_over(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    closed = Mock(side_effect=PermissionError(errno.EACCES, "Permission denied"))
    monkeypatch.setattr(Path, "lstat", closed)
    monkeypatch.setattr(Path, "open", closed)
    assert f"{tmp_path}/supervise.toml: the file cannot be read" in refused()


def test_a_file_that_fails_while_it_is_read_is_an_error(refused: Callable[..., str]):
    # Reading a process's own memory at address zero fails for every user, root included.
    assert "cannot be read: Input/output error" in refused(config_files=[Path("/proc/self/mem")])


def test_a_huge_file_is_refused(refused: Callable[..., str]):
    assert "larger than 1 MiB" in refused(b"#" * (LARGEST_BYTES + 1))


def test_a_file_just_small_enough_is_read(resolve: Load):
    line = b"engine.port = 8\n#"
    assert resolve(line + b"x" * (LARGEST_BYTES - len(line))).settings.engine.port == 8


def test_an_endless_file_is_refused(refused: Callable[..., str]):
    assert "larger than 1 MiB" in refused(config_files=[Path("/dev/zero")])


def test_bytes_that_are_no_text_name_their_line(refused: Callable[..., str]):
    assert "supervise.toml:2: the file is not UTF-8 text" in refused(b"[engine]\nhost = '\xff'\n")


def test_a_byte_order_mark_and_foreign_line_ends_do_no_harm(resolve: Load):
    resolved = resolve("\ufeff[engine]\r\nport = 8\r\n".encode())
    assert resolved.settings.engine.port == 8
    assert resolved.origin("engine.port").source.endswith("supervise.toml:2")


# Syntax errors


def test_a_syntax_error_shows_the_line_and_a_caret(refused: Callable[..., str], tmp_path: Path):
    report = refused("[engine]\nport = = 8\n").splitlines()
    assert report[0] == f"{tmp_path}/supervise.toml:2: not valid TOML: invalid value"
    assert report[1] == "    2 | port = = 8"
    assert report[2].index("^") == report[1].rindex("=")


def test_a_long_line_is_shown_around_the_error_only(refused: Callable[..., str]):
    report = refused(f"x = ['{'a' * 5000}', = , '{'b' * 5000}']").splitlines()
    assert len(report[1]) < 130
    assert report[1][report[2].index("^")] == "="


def test_tabs_and_escapes_do_not_reach_the_terminal(refused: Callable[..., str]):
    report = refused("\t\tx = \x1b[31m").splitlines()
    assert report[1] == "    1 |   x =  [31m"
    assert report[1][report[2].index("^") :] == " [31m"


@pytest.mark.parametrize(
    "toml",
    [
        "engine.api_key = 'sekrit",
        "[engine]\nadmin_api_key = sekrit",
        "[engine]\napi_key = '''\nsekrit",
        "[engine]\napi_key = '''\nsekrit = =\n",
        "[engine.env]\nMY_PASS = 'sekrit\n",
        "[engine]\nenv = { MY_PASS = 'sekrit",
        "engine.env.MY_PASS = 'sekrit",
        "engine = { apikey = 'sekrit",
        "[engine]\napi_key = 'sekrit'\napi_key = 'sekrit'\n",
    ],
)
def test_a_syntax_error_shows_no_secret(refused: Callable[..., str], toml: str):
    report = refused(toml)
    assert "not valid TOML" in report
    assert "sekrit" not in report
    assert "the line is not shown" in report


@pytest.mark.parametrize(
    "line", ["port = visible", "max_tokens = visible", "api_key_file = visible", "hf_token_file = visible"]
)
def test_a_syntax_error_beside_a_secret_is_shown(refused: Callable[..., str], line: str):
    assert f"| {line}" in refused(f"[engine]\napi_key = 'sekrit'\n{line}\n")


@pytest.mark.parametrize(
    "toml", ["a = " + "[" * 5000, "a = " + "9" * 5000, "a." * 5000 + "a = 1", "engine.args.x = 0x" + "f" * 5000]
)
def test_toml_beyond_all_measure_is_an_error(refused: Callable[..., str], toml: str):
    assert "supervise.toml" in refused(toml)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_largest_integer_of_toml_is_one(resolve: Load, number: int):
    assert resolve(f"engine.args.x = {number}").settings.engine.args["x"] == number


@pytest.mark.parametrize("value", [f"{2**63}", f"[1, {2**63}]", f"{{ y = {-(2**63) - 1} }}"])
def test_an_integer_of_more_than_64_bits_is_an_error(refused: Callable[..., str], value: str):
    assert "supervise.toml:1: engine.args.x" in refused(f"engine.args.x = {value}")


# Keys and values


def test_an_unknown_key_names_the_nearest_one_and_its_line(refused: Callable[..., str], tmp_path: Path):
    report = refused("[engine]\nhost = 'h'\nprot = 8\n")
    assert report.startswith(f"{tmp_path}/supervise.toml:3: engine.prot: there is no such setting\n")
    assert "Did you mean engine.port?" in report


def test_an_unknown_table_names_the_nearest_one(refused: Callable[..., str]):
    report = refused("\n[enigne]\nport = 8\n")
    assert "supervise.toml:2: enigne: there is no such setting" in report
    assert "Did you mean engine?" in report


def test_a_key_in_the_wrong_table_names_the_right_one(refused: Callable[..., str]):
    assert "Did you mean engine.reasoning_parser?" in refused("[model]\nreasoning_parser = 'qwen3'\n")


def test_a_key_that_several_tables_have_names_them_all(refused: Callable[..., str]):
    assert "Did you mean engine.port or health.port?" in refused("port = 8")


def test_a_flag_set_beside_the_settings_of_the_engine_is_sent_to_its_table(refused: Callable[..., str]):
    report = refused("[engine]\nkv_cache_dtype = 'fp8_e4m3'\n")
    assert "engine.args" in report
    assert "Did you mean" not in report


def test_an_unknown_key_like_no_other_guesses_nothing(refused: Callable[..., str]):
    assert "Did you mean" not in refused("zzz = 8")


def test_a_key_that_would_write_to_the_terminal_is_quoted(refused: Callable[..., str]):
    report = refused('"\\u001b[31m" = 8')
    assert "\x1b" not in report
    assert "'\\x1b[31m': there is no such setting" in report


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("engine.port = 'abc'", "engine.port: expected a whole number from 1 to 65535, got 'abc'"),
        ("engine.port = 0", "engine.port: expected a whole number from 1 to 65535, got 0"),
        ("engine.port = true", "engine.port: expected a whole number from 1 to 65535, got true"),
        ("engine.port = [1]", "engine.port: expected a whole number from 1 to 65535, got a list"),
        ("engine.port.x = 1", "engine.port: expected a whole number from 1 to 65535, got a table"),
        ("engine.port = 1979-05-27", "engine.port: expected a whole number from 1 to 65535, got a date or time"),
        ("engine.host = 1", "engine.host: expected text, got 1"),
        ("engine.access = 'all'", "engine.access: expected 'key' or 'open', got 'all'"),
        ("engine = 3", "engine: expected a table, got a whole number"),
        ("[[engine]]\nport = 1", "supervise.toml:1: engine: expected a table, got a list"),
        ("engine.args = 3", "engine.args: expected a table, got a whole number"),
        ("engine.env.A = 1", "engine.env.A: expected text, got a whole number"),
        ("engine.args.x = 1979-05-27", "engine.args.x: expected true or false, a whole number, a number, text, a list"),
        ("profile = 3", "profile: expected text, got 3"),
        ("drain.timeout_s = inf", "drain.timeout_s: expected a number above 0, got inf"),
        ("prove.every_s = -1", "prove.every_s: expected a number of at least 0, got -1"),
        ("watch.memory_floor_gib = 0", "watch.memory_floor_gib: expected a number above 0, got 0"),
        ("watch.on_low_memory = 'kill'", "watch.on_low_memory: expected 'warn' or 'drain', got 'kill'"),
        ("watch.stall_s = -1", "watch.stall_s: expected a number of at least 0, got -1"),
        ("rules.ignore = 'x'", "rules.ignore: expected a list of text, got 'x'"),
        ("rules.ignore = [1]", "rules.ignore: expected a list of text, got a list"),
        ("logs.format = 'xml'", "logs.format: expected 'auto', 'json' or 'console', got 'xml'"),
        ("model.context_length = 'x'", "expected a whole number above 0 or '' (left out), got 'x'"),
        ("engine.mem_fraction_static = 2", "expected a number above 0 and at most 1 or '' (left out), got 2"),
        ("engine.watchdog_timeout_s = 'x'", "expected a whole number above 0 or '' (left out), got 'x'"),
        ("model.trust_remote_code = 'perhaps'", "expected true or false, got 'perhaps'"),
    ],
)
def test_a_wrong_value_is_told_from_what_is_expected(refused: Callable[..., str], toml: str, message: str):
    report = refused(toml)
    assert message in report
    assert "supervise.toml:1: " in report


def test_a_wrong_value_explains_its_setting(refused: Callable[..., str]):
    assert "What engine.port means: Port on which clients reach the engine." in refused("engine.port = 'x'")


def test_a_long_value_is_shortened(refused: Callable[..., str]):
    assert len(refused(f"engine.port = '{'x' * 10_000}'")) < 300


def test_a_wrong_value_that_a_stronger_layer_corrects_does_no_harm(resolve: Load):
    assert resolve("engine.port = 'x'", overrides=[("engine.port", "8")]).settings.engine.port == 8


def test_all_problems_of_a_load_are_reported_at_once(refused: Callable[..., str], tmp_path: Path):
    (tmp_path / "broken.toml").write_text("= 1")
    (tmp_path / "wrong.toml").write_text("engine.prot = 1\nengine.port = 'abc'\nprofile = 'tinny'\n")
    report = refused(
        config_files=[Path("broken.toml"), Path("wrong.toml"), Path("gone.toml")],
        environ={"SUPERVISE_FOO": "1"},
        overrides=[("health.port", "x")],
    )
    assert report.startswith("The settings have 7 problems:")
    for place in ("broken.toml:1", "wrong.toml:1", "wrong.toml:2", "wrong.toml:3", "gone.toml", "SUPERVISE_FOO"):
        assert f"{place}: " in report
    assert "--health.port: health.port: expected a whole number from 1 to 65535, got 'x'" in report
    assert "Did you mean 'tiny'?" in report


# Secrets


@pytest.mark.parametrize(
    "layers",
    [
        {"toml": "[engine]\napi_key = ['sekrit']\n"},
        {"toml": "[engine]\napi_key = { sekrit = 1 }\n"},
        {"toml": "[engine]\nadmin_api_key = 5317\n"},
        {"toml": "[engine.env]\nHF_TOKEN = ['sekrit']\n"},
        {"toml": "[engine]\napikey = 'sekrit'\n"},
        {"environ": {"SUPERVISE_ENGINE": '{"api_key": "sekrit'}},
        {"environ": {"SUPERVISE_ENGINE": '{"api_key": ["sekrit"]}'}},
        {"environ": {"SUPERVISE_ENGINE__ENV": '{"HF_TOKEN": "sekrit'}},
        {"environ": {"SUPERVISE_ENGINE__APIKEY": "sekrit"}},
        {"overrides": [("engine.api_kye", "sekrit")]},
    ],
)
def test_no_error_shows_a_secret(refused: Callable[..., str], layers: dict[str, object]):
    report = refused(**layers)
    assert "sekrit" not in report
    assert "5317" not in report


def test_a_secret_is_not_shown_by_the_settings_either(resolve: Load):
    resolved = resolve(environ={"SUPERVISE_ENGINE__API_KEY": "sekrit"})
    assert resolved.settings.engine.api_key is not None
    assert resolved.settings.engine.api_key.get_secret_value() == "sekrit"
    assert "sekrit" not in repr(resolved)


# Any bytes at all

PUNCTUATION = ["=", ".", ",", "[", "]", "{", "}", "'", '"', '"""', "#", "\n", "\r\n", " ", "-", "_", "\\", "\x1b"]
WORDS = ["[engine]", "[engine.args]", "[[x]]", "port", "engine", "env", "api_key", "profile", "tiny"]
VALUES = ["1", "true", "inf", "1979-05-27", "'x'"]
FRAGMENTS = st.sampled_from([*PUNCTUATION, *WORDS, *VALUES])


@given(st.binary(max_size=200) | st.lists(FRAGMENTS, max_size=30).map(lambda parts: "".join(parts).encode()))
def test_any_bytes_as_a_file_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(content)
    try:
        resolved = load(
            profile=None,
            config_files=[file],
            overrides=[],
            extra_arguments=[],
            environ={},
            cwd=file.parent,
        )
    except SuperviseError as error:
        assert str(file) in error.message  # noqa: PT017 - either outcome is right, each with its own promise
    else:
        assert resolved.files == (file,)


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_any_text_as_a_variable_is_read_or_refused(text: str):
    for name in ("SUPERVISE_ENGINE", "SUPERVISE_ENGINE__PORT", "SUPERVISE_ENGINE__ARGS__X", f"SUPERVISE_{text}"):
        try:
            load(
                profile=None,
                config_files=[],
                overrides=[],
                extra_arguments=[],
                environ={name: text},
                cwd=Path("/nonexistent"),
                etc=Path("/nonexistent"),
            )
        except SuperviseError as error:
            assert error.code is ExitCode.CONFIGURATION  # noqa: PT017 - either outcome is right


def test_parsing_needs_no_file():
    assert [found.value for found in parse(b"engine.port = 8", Path("x")).given] == [8]


def test_a_tilde_is_the_callers_home(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    settings = load(
        profile=None,
        config_files=[],
        overrides=[("logs.dir", "~/serving"), ("model.path", "~/models/tiny"), ("model.served_name", "~tiny")],
        extra_arguments=[],
        environ={},
        cwd=Path("/nonexistent"),
        etc=Path("/nonexistent"),
    ).settings
    assert settings.logs.dir == Path("/home/me/serving")
    assert settings.model.path == "/home/me/models/tiny"
    assert settings.model.served_name == "~tiny"
