"""The rules: each fires once, and stays quiet in the case beside it."""

from collections.abc import Callable, Sequence

import pytest

from entrypoint.engine.flags import FlagTable
from entrypoint.findings import Finding, Severity, errors
from entrypoint.node.facts import NodeFacts
from entrypoint.outcome import ExitCode
from entrypoint.plan.plan import Plan

Planned = Callable[..., Plan]


def found(plan: Plan, rule: str) -> list[Finding]:
    return [finding for finding in plan.findings if finding.rule == rule]


def only(plan: Plan, rule: str) -> Finding:
    (finding,) = found(plan, rule)
    return finding


def test_a_plan_without_anything_wrong_has_no_findings(planned: Planned, table: FlagTable):
    assert planned(flags=table).findings == ()


def test_every_error_says_what_to_do_and_ends_with_78(planned: Planned, two_nodes: NodeFacts):
    plan = planned("health.port = 30000", ("--api-key", "s3cret-key"), on=two_nodes, model="")
    for finding in errors(plan.findings):
        assert finding.remedy.endswith("."), finding.rule
        assert finding.code is ExitCode.CONFIGURATION


# The model


def test_a_server_without_a_model_is_refused(planned: Planned):
    finding = only(planned(model=""), "model-unset")
    assert finding.severity is Severity.ERROR
    assert finding.setting == "model.path"


@pytest.mark.parametrize("extra", [("--model", "/m"), ("--model-path=/m",)])
def test_a_model_named_after_the_separator_will_do(planned: Planned, extra: Sequence[str]):
    assert not found(planned(extra=extra, model=""), "model-unset")


def test_a_model_whose_name_no_client_could_say_is_refused(planned: Planned):
    finding = only(planned("model.served_name = ''", model="/m\udcff"), "name-unspeakable")
    assert finding.setting == "model.served_name"
    assert "m\\udcff" in finding.message


@pytest.mark.parametrize("name", ["plain", "Zürich, 漢"])
def test_a_model_with_a_name_in_any_script_is_served(planned: Planned, name: str):
    assert not found(planned(f'model.served_name = "{name}"', model="/m\udcff"), "name-unspeakable")


# Parsers


@pytest.mark.parametrize(
    ("toml", "setting", "switch"),
    [
        ('engine.tool_call_parser = ""', "engine.tool_call_parser", "prove.tools"),
        ('engine.reasoning_parser = ""', "engine.reasoning_parser", "prove.reasoning"),
    ],
)
def test_a_missing_parser_is_refused_and_the_switch_for_such_models_is_named(
    planned: Planned, toml: str, setting: str, switch: str
):
    finding = only(planned(toml), "parsers-both")
    assert (finding.severity, finding.setting) == (Severity.ERROR, setting)
    assert f"{switch} = false" in finding.remedy
    assert not found(planned(f"{toml}\n{switch} = false"), "parsers-both")


def test_both_parsers_missing_are_two_findings(planned: Planned):
    toml = 'engine.tool_call_parser = ""\nengine.reasoning_parser = ""'
    assert len(found(planned(toml), "parsers-both")) == 2


def test_the_switch_of_one_parser_does_not_excuse_the_other(planned: Planned):
    assert found(planned('engine.tool_call_parser = ""\nprove.reasoning = false'), "parsers-both")


@pytest.mark.parametrize(
    ("toml", "extra"),
    [
        ('engine.tool_call_parser = ""\nengine.args.tool-call-parser = "qwen"', ()),
        ('engine.tool_call_parser = ""', ("--tool-call-parser", "qwen")),
        ('engine.tool_call_parser = ""', ("--tool-call-parser=qwen",)),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_parser_is_seen_wherever_it_is_named(
    planned: Planned, table: FlagTable, toml: str, extra: Sequence[str], *, known: bool
):
    assert not found(planned(toml, extra, flags=table if known else None), "parsers-both")


def test_an_abbreviated_parser_is_seen_where_the_engines_flags_are_known(planned: Planned, table: FlagTable):
    assert not found(planned('engine.tool_call_parser = ""', ("--tool-call-p", "qwen"), flags=table), "parsers-both")


@pytest.mark.parametrize("extra", [("--tool-call-parser=",), ("--tool-call-parsers", "qwen")])
def test_a_parser_named_by_nothing_or_wrongly_is_none(planned: Planned, extra: Sequence[str]):
    assert found(planned('engine.tool_call_parser = ""', extra), "parsers-both")


# Secrets


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("toml", "extra"),
    [
        ("", ("--api-key", "s3cret-key")),
        ("", ("--api-key=s3cret-key",)),
        ("", ("--api-k", "s3cret-key")),
        ("", ("--ap=s3cret-key",)),
        ("", ("--admin-api-key", "s3cret-key")),
        ("", ("--adm", "s3cret-key")),
        ('engine.args.api-key = "s3cret-key"', ()),
        ('engine.args.api_key = "s3cret-key"', ()),
    ],
)
def test_a_key_in_the_command_line_is_refused_in_any_spelling(
    planned: Planned, table: FlagTable, toml: str, extra: Sequence[str], *, known: bool
):
    finding = only(planned(toml, extra, flags=table if known else None), "secret-in-argv")
    assert finding.severity is Severity.ERROR
    assert finding.setting in {"engine.api_key_file", "engine.admin_api_key_file"}
    assert "s3cret-key" not in finding.message + finding.remedy


@pytest.mark.parametrize(
    ("toml", "extra"),
    [
        ('engine.api_key = "s3cret-key"', ()),
        ("", ("--attention-backend", "aiter")),
        ("", ("--a", "x")),
        ("", ("--served-model-name", "api-key")),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_key_from_the_settings_and_similar_words_are_no_secret_in_the_command_line(
    planned: Planned, table: FlagTable, toml: str, extra: Sequence[str], *, known: bool
):
    assert not found(planned(toml, extra, flags=table if known else None), "secret-in-argv")


# The configuration file


def test_a_configuration_file_of_the_users_leaves_none_for_the_keys(planned: Planned):
    toml = 'engine.args.config = "/my.yaml"'
    assert only(planned(f'{toml}\nengine.api_key = "s3cret-key"'), "config-file-taken").severity is Severity.ERROR
    assert found(planned(f'{toml}\nengine.host = "0.0.0.0"'), "config-file-taken"), "the generated key needs it, too"
    assert not found(planned(toml), "config-file-taken")


# Ports


@pytest.mark.parametrize(
    ("toml", "extra"),
    [("health.port = 30000", ()), ("engine.port = 30900", ()), ("", ("--port=30900",))],
)
def test_two_servers_on_one_port_are_refused(planned: Planned, toml: str, extra: Sequence[str]):
    finding = only(planned(toml, extra), "ports-clash")
    assert (finding.severity, finding.setting) == (Severity.ERROR, "health.port")


def test_a_port_that_the_engine_does_not_take_after_all_does_not_clash(planned: Planned):
    assert not found(planned("engine.port = 30900", ("--port", "30901")), "ports-clash")


@pytest.mark.parametrize("extra", [("--port", "http"), ("--port",), ("--port", "65536"), ("--port", "0")])
def test_a_port_that_is_no_port_is_refused(planned: Planned, extra: Sequence[str]):
    plan = planned(extra=extra)
    assert only(plan, "port-unreadable").severity is Severity.ERROR
    assert plan.engine_port == 30000


@pytest.mark.parametrize("extra", [(), ("--port", "1"), ("--port", "65535")])
def test_a_port_is_a_number_in_range(planned: Planned, extra: Sequence[str]):
    assert not found(planned(extra=extra), "port-unreadable")


# Nodes


def test_several_nodes_are_refused(planned: Planned, two_nodes: NodeFacts):
    finding = only(planned(on=two_nodes), "several-nodes")
    assert "spans 2 nodes" in finding.message
    assert not found(planned(), "several-nodes")


# Access


@pytest.mark.parametrize("admin", ["", 'engine.admin_api_key = "s3cret-key"'])
def test_an_engine_open_to_all_is_worth_a_warning(planned: Planned, admin: str):
    toml = f'engine.access = "open"\nengine.host = "0.0.0.0"\n{admin}'
    finding = only(planned(toml), "access-open")
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    "toml",
    [
        'engine.access = "open"',
        'engine.access = "open"\nengine.host = "localhost"',
        'engine.host = "0.0.0.0"',
        'engine.access = "open"\nengine.host = "0.0.0.0"\nengine.api_key = "s3cret-key"',
    ],
)
def test_loopback_and_keys_close_an_engine(planned: Planned, toml: str):
    assert not found(planned(toml), "access-open")


# Flags


def test_unchecked_flags_are_a_note_that_names_the_engine(planned: Planned, table: FlagTable):
    finding = only(planned(version="0.5.23"), "flags-unchecked")
    assert finding.severity is Severity.NOTE
    assert "SGLang 0.5.23" in finding.message
    assert "this engine" in only(planned(version=None), "flags-unchecked").message
    assert not found(planned(flags=table), "flags-unchecked")


@pytest.mark.parametrize(
    ("toml", "extra", "rule", "severity", "setting"),
    [
        ("engine.args.nonsense = 1", (), "flag-unknown", Severity.ERROR, "engine.args.nonsense"),
        ("", ("--nonsense", "1"), "flag-unknown", Severity.ERROR, None),
        ('engine.tool_call_parser = "glm46"', (), "flag-not-a-choice", Severity.ERROR, "engine.tool_call_parser"),
        ("", ("--pp", "2"), "flag-ambiguous", Severity.ERROR, None),
        ("", ("--disable-cuda-graph",), "flag-deprecated", Severity.WARNING, None),
        ("", ("--tool-call-p", "qwen"), "flag-abbreviated", Severity.WARNING, None),
        ("", ("--config=/my.yaml",), "flag-ignored", Severity.NOTE, None),
    ],
)
def test_a_flag_that_the_engine_would_complain_about_is_found(
    planned: Planned,
    table: FlagTable,
    toml: str,
    extra: Sequence[str],
    *,
    rule: str,
    severity: Severity,
    setting: str | None,
):
    finding = only(planned(toml, extra, flags=table), rule)
    assert (finding.severity, finding.setting) == (severity, setting)
    assert not found(planned(toml, extra), rule), "without the engine's list nobody can know"


def test_an_unknown_flag_names_the_nearest(planned: Planned, table: FlagTable):
    assert "--page-size" in only(planned("engine.args.page-sise = 1", flags=table), "flag-unknown").remedy


# Silence


def test_an_ignored_rule_is_silent_and_the_others_are_not(planned: Planned):
    toml = 'rules.ignore = ["parsers-both"]\nengine.tool_call_parser = ""\nhealth.port = 30000'
    plan = planned(toml)
    assert not found(plan, "parsers-both")
    assert found(plan, "ports-clash")


def test_a_refused_variable_can_be_silenced_and_then_reaches_the_engine(planned: Planned):
    toml = 'rules.ignore = ["environment-refused"]\nengine.env.AITER_REBUILD = "1"'
    plan = planned(toml)
    assert not found(plan, "environment-refused")
    assert {"AITER_REBUILD": "1"}.items() <= {one.name: one.value for one in plan.environment}.items()


def test_a_rule_that_does_not_exist_silences_nothing(planned: Planned):
    assert found(planned('rules.ignore = ["ports"]\nhealth.port = 30000'), "ports-clash")
