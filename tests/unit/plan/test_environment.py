"""The engine's environment: what becomes of each variable, and why."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from entrypoint.node.facts import NodeFacts
from entrypoint.plan.environment import (
    Policy,
    Treatment,
    Variable,
    VariableRule,
    decide,
    no_proxy,
    rules_for,
)
from entrypoint.plan.plan import Plan
from entrypoint.settings.secrets import Secrets

Planned = Callable[..., Plan]
NOBODY = Secrets(None, None, None)


def decided(
    policy: Policy, *, present: str | None = None, wish: str | None = None, value: str = "1"
) -> Variable | None:
    variables, _ = decide(
        [VariableRule("X", value, policy, "why")],
        environ={} if present is None else {"X": present},
        wishes={} if wish is None else {"X": wish},
    )
    assert len(variables) <= 1
    return variables[0] if variables else None


def refusals(policy: Policy, *, present: str | None = None, wish: str | None = None, value: str = "1") -> list[str]:
    _, findings = decide(
        [VariableRule("X", value, policy, "it breaks")],
        environ={} if present is None else {"X": present},
        wishes={} if wish is None else {"X": wish},
    )
    return [finding.message for finding in findings]


def of(plan: Plan, name: str) -> Variable | None:
    return next((variable for variable in plan.environment if variable.name == name), None)


# Policies


@pytest.mark.parametrize("policy", [Policy.DEFAULT, Policy.OVERRIDE, Policy.REFUSE])
def test_a_variable_that_is_absent_is_set(policy: Policy):
    assert decided(policy) == Variable("X", "1", "why", Treatment.SET)


@pytest.mark.parametrize("policy", [Policy.DEFAULT, Policy.OVERRIDE, Policy.REFUSE])
def test_a_variable_that_is_right_already_counts_as_set(policy: Policy):
    assert decided(policy, present="1") == Variable("X", "1", "why", Treatment.SET, "1")


def test_a_default_gives_way_to_what_is_there():
    assert decided(Policy.DEFAULT, present="2") == Variable("X", "2", "why; yours is kept", Treatment.KEPT, "2")


def test_an_override_replaces_what_is_there_and_remembers_it():
    assert decided(Policy.OVERRIDE, present="2") == Variable("X", "1", "why", Treatment.OVERRIDDEN, "2")


def test_unset_removes_what_is_there_and_says_nothing_of_what_is_not():
    assert decided(Policy.UNSET, present="2", value="") == Variable("X", None, "why", Treatment.UNSET, "2")
    assert decided(Policy.UNSET, value="") is None


@pytest.mark.parametrize("given", [{"present": "2"}, {"wish": "2"}])
def test_another_value_than_the_required_one_is_refused(given: Mapping[str, str]):
    (message,) = refusals(Policy.REFUSE, **given)
    assert "X=2" in message
    assert "it breaks" in message


@pytest.mark.parametrize("given", [{}, {"present": "1"}, {"present": ""}, {"wish": "1"}, {"present": "2", "wish": "1"}])
def test_the_required_value_or_none_is_not_refused(given: Mapping[str, str]):
    assert refusals(Policy.REFUSE, **given) == []


def test_a_variable_that_must_not_be_is_refused_with_any_value():
    assert refusals(Policy.REFUSE, present="1", value="")
    assert not refusals(Policy.REFUSE, value="")


def test_a_refusal_names_the_way_out():
    _, (finding,) = decide([VariableRule("X", "0", Policy.REFUSE, "why")], environ={"X": "1"}, wishes={})
    assert (finding.rule, finding.setting) == ("environment-refused", "engine.env.X")
    assert finding.remedy == "Unset it, or say X=0."


# Wishes


@pytest.mark.parametrize("policy", [Policy.DEFAULT, Policy.OVERRIDE, Policy.UNSET])
def test_a_wish_beats_every_row(policy: Policy):
    variable = decided(policy, present="2", wish="3")
    assert variable == Variable("X", "3", "set by [engine.env]", Treatment.OVERRIDDEN, "2")


@pytest.mark.parametrize("policy", [Policy.DEFAULT, Policy.OVERRIDE, Policy.UNSET])
def test_an_empty_wish_removes_a_variable(policy: Policy):
    variable = decided(policy, present="2", wish="")
    assert variable == Variable("X", None, "removed by [engine.env]", Treatment.UNSET, "2")


def test_an_empty_wish_does_not_take_away_what_is_required():
    assert decided(Policy.REFUSE, wish="", value="0") == Variable("X", "0", "why", Treatment.SET)
    assert decided(Policy.REFUSE, wish="", value="") == Variable("X", None, "removed by [engine.env]", Treatment.UNSET)


def test_a_wish_needs_no_row():
    variables, _ = decide([], environ={}, wishes={"B": "2", "A": "1"})
    assert [(variable.name, variable.value) for variable in variables] == [("A", "1"), ("B", "2")]


# Rows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SGLANG_USE_AITER", "1"),
        ("SGLANG_SET_CPU_AFFINITY", "0"),
        ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "0"),
        ("SGLANG_CUDA_COREDUMP_BEFORE_CRASH", "0"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("PYTHONUNBUFFERED", "1"),
        ("AITER_REBUILD", "0"),
    ],
)
def test_what_is_always_set(planned: Planned, name: str, value: str):
    variable = of(planned(), name)
    assert variable is not None
    assert variable.value == value


@pytest.mark.parametrize("name", ["SGLANG_SET_CPU_AFFINITY", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"])
def test_presets_of_the_images_are_replaced_unless_the_settings_ask_for_them(planned: Planned, name: str):
    preset, wished = planned(environ={name: "1"}), planned(f'engine.env.{name} = "1"')
    assert of(preset, name) == replace(of(planned(), name), treatment=Treatment.OVERRIDDEN, previous="1")
    assert of(wished, name) == Variable(name, "1", "set by [engine.env]", Treatment.SET)


def test_aiter_can_be_turned_off_from_outside(planned: Planned):
    variable = of(planned(environ={"SGLANG_USE_AITER": "0"}), "SGLANG_USE_AITER")
    assert variable is not None
    assert (variable.value, variable.treatment) == ("0", Treatment.KEPT)


@pytest.mark.parametrize(("name", "bad", "good"), [("SGL_FORCE_SHUTDOWN", "1", ""), ("AITER_REBUILD", "1", "0")])
def test_what_would_break_a_server_is_refused(planned: Planned, name: str, bad: str, good: str):
    def refused(value: str) -> bool:
        return f"engine.env.{name}" in {finding.setting for finding in planned(environ={name: value}).findings}

    assert refused(bad)
    assert not refused(good)


def test_the_fabric_is_kept_from_summing_wrongly_exactly_on_several_nodes(planned: Planned, two_nodes: NodeFacts):
    name = "NCCL_NET_GDR_LEVEL"
    assert of(planned(), name) is None
    variable = of(planned(on=two_nodes), name)
    assert variable is not None
    assert variable.value == "0"
    assert of(planned('network.gdr_level = ""', on=two_nodes), name) is None


@pytest.mark.parametrize("wish", ["3", "0"])
def test_another_level_on_several_nodes_is_refused(planned: Planned, two_nodes: NodeFacts, wish: str):
    plan = planned(f'engine.env.NCCL_NET_GDR_LEVEL = "{wish}"', on=two_nodes)
    assert ("environment-refused" in {finding.rule for finding in plan.findings}) == (wish == "3")


def test_a_level_on_one_node_is_the_users_business(planned: Planned):
    plan = planned(environ={"NCCL_NET_GDR_LEVEL": "3"})
    assert "environment-refused" not in {finding.rule for finding in plan.findings}
    assert plan.engine_environment(NOBODY)["NCCL_NET_GDR_LEVEL"] == "3"


@pytest.mark.parametrize("name", ["NCCL_NET", "NCCL_NET_PLUGIN"])
def test_a_forced_network_plugin_is_removed_on_one_node_only(planned: Planned, two_nodes: NodeFacts, name: str):
    preset = {name: "ofi"}
    assert name not in planned(environ=preset).engine_environment(NOBODY)
    assert planned(on=two_nodes, environ=preset).engine_environment(NOBODY)[name] == "ofi"
    assert planned(f'engine.env.{name} = "ofi"').engine_environment(NOBODY)[name] == "ofi"


@pytest.mark.parametrize(("present", "left"), [("112", None), ("64", "64")])
def test_the_channels_that_an_image_presets_are_removed_and_others_are_kept(
    planned: Planned, present: str, left: str | None
):
    environment = planned(environ={"NCCL_MIN_NCHANNELS": present}).engine_environment(NOBODY)
    assert environment.get("NCCL_MIN_NCHANNELS") == left


@pytest.mark.parametrize(
    ("model", "more", "offline"),
    [
        ("/models/tiny", "", True),
        ("./tiny", "", True),
        ("Qwen/Qwen3-8B", "", False),
        ("/models/tiny", 'engine.args.tokenizer-path = "/models/tokenizer"', True),
        ("/models/tiny", 'engine.args.tokenizer-path = "Qwen/Qwen3-8B"', False),
        ("/models/tiny", 'engine.args.speculative-draft-model-path = "Qwen/Draft"', False),
        ("Qwen/Qwen3-8B", 'engine.args.model-path = "/models/tiny"', True),
        ("", "", False),
    ],
)
def test_the_hub_is_left_alone_exactly_where_everything_is_local(
    planned: Planned, model: str, more: str, *, offline: bool
):
    assert (of(planned(more, model=model), "HF_HUB_OFFLINE") is not None) == offline


def test_a_caller_who_wants_the_hub_keeps_it(planned: Planned):
    assert planned(environ={"HF_HUB_OFFLINE": "0"}).engine_environment(NOBODY)["HF_HUB_OFFLINE"] == "0"


def test_rules_are_made_for_the_number_of_nodes():
    names = {row.name for row in rules_for(nodes=1, gdr_level=0, model_is_local=False, environ={})}
    assert {"NCCL_NET", "NCCL_NET_PLUGIN"} <= names
    assert "NCCL_NET_GDR_LEVEL" not in names


# The proxy


@pytest.mark.parametrize(
    ("environ", "value"),
    [
        ({}, "127.0.0.1,localhost,::1,nid1"),
        ({"no_proxy": "a.ch, localhost"}, "a.ch,localhost,127.0.0.1,::1,nid1"),
        ({"NO_PROXY": "b.ch"}, "b.ch,127.0.0.1,localhost,::1,nid1"),
        ({"no_proxy": "a.ch", "NO_PROXY": "b.ch"}, "a.ch,127.0.0.1,localhost,::1,nid1"),
        ({"no_proxy": "*"}, "*"),
        ({"no_proxy": ","}, "127.0.0.1,localhost,::1,nid1"),
    ],
)
def test_this_machine_is_kept_from_the_proxy_beside_what_was_there(environ: Mapping[str, str], value: str):
    assert no_proxy(environ, ["nid1"]).value == value


def test_the_proxy_row_is_part_of_every_plan(planned: Planned):
    assert planned(environ={"no_proxy": "a.ch"}).engine_environment(NOBODY)["no_proxy"].startswith("a.ch,127.0.0.1")


# The whole


def test_every_variable_has_a_reason_and_they_are_sorted(planned: Planned, two_nodes: NodeFacts):
    plan = planned('engine.env.A = "1"', environ={"NCCL_NET": "ofi", "NCCL_MIN_NCHANNELS": "112"})
    for variable in (*plan.environment, *planned(on=two_nodes).environment):
        assert variable.reason, variable.name
    names = [variable.name for variable in plan.environment]
    assert names == sorted(set(names))


def test_the_engine_gets_the_callers_environment_with_the_changes(planned: Planned):
    environment = planned('engine.env.NEW = "1"\nengine.env.OLD = ""', environ={"OLD": "1", "OTHER": "2"})
    whole = environment.engine_environment(NOBODY)
    assert (whole["OTHER"], whole["NEW"]) == ("2", "1")
    assert "OLD" not in whole
