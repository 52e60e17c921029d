"""Where caches lie, and that models stay where they were."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from entrypoint.node.facts import NodeFacts
from entrypoint.plan.caches import CACHE_RULES, CacheLayer, layout, shared_root
from entrypoint.plan.plan import Plan
from entrypoint.settings.schema import CacheSettings

Place = Callable[[str], Path]


def places(settings: CacheSettings, node: NodeFacts, version: str | None = "0.5.23") -> dict[str, Path]:
    return {cache.variable: cache.path for cache in layout(settings, node, engine_version=version)}


def test_by_default_everything_lies_below_the_callers_cache_by_engine_version(node: NodeFacts):
    found = places(CacheSettings(), node)
    below = node.home / ".cache" / "supervise" / "sglang-0.5.23"
    assert found["AITER_JIT_DIR"] == below / "aiter" / "jit"
    assert found["TRITON_CACHE_DIR"] == below / "triton"
    assert found["HOME"] == below / "home"


def test_a_local_directory_takes_what_network_file_systems_break_and_nothing_else(node: NodeFacts):
    found = places(CacheSettings(shared=Path("/net"), local=Path("/fast")), node)
    assert found["AITER_ROOT_DIR"] == Path("/net/sglang-0.5.23/aiter/root")
    assert found["HOME"] == Path("/net/sglang-0.5.23/home")
    assert found["TRITON_CACHE_DIR"] == Path("/fast/sglang-0.5.23/triton")
    local = {rule.variable for rule in CACHE_RULES if rule.layer is CacheLayer.LOCAL}
    assert {name for name, path in found.items() if path.is_relative_to("/fast")} == local


def test_without_a_local_directory_the_shared_one_takes_all(node: NodeFacts):
    found = places(CacheSettings(shared=Path("/net")), node)
    del found["HF_HOME"]
    assert all(path.is_relative_to("/net/sglang-0.5.23") for path in found.values())


@pytest.mark.parametrize(
    ("key", "version", "name"),
    [("auto", "0.5.23", "sglang-0.5.23"), ("auto", None, "sglang-unknown"), ("mine", "0.5.23", "mine")],
)
def test_the_key_is_the_engines_version_or_the_users_word(node: NodeFacts, key: str, version: str | None, name: str):
    assert places(CacheSettings(shared=Path("/net"), key=key), node, version)["HOME"] == Path("/net", name, "home")


def test_no_two_variables_share_a_directory(node: NodeFacts):
    found = list(places(CacheSettings(), node).values())
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("environ", "hub"),
    [
        ({}, "{home}/.cache/huggingface"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/huggingface"),
        ({"HF_HOME": "/models/hf", "XDG_CACHE_HOME": "/xdg"}, "/models/hf"),
        ({"HF_HOME": "~/hf"}, "{home}/hf"),
        ({"HF_HOME": "hf"}, "{cwd}/hf"),
    ],
)
def test_models_stay_where_they_were_whatever_home_the_engine_gets(node: NodeFacts, environ: dict[str, str], hub: str):
    found = places(CacheSettings(), replace(node, environ=environ))
    assert str(found["HF_HOME"]) == hub.format(home=node.home, cwd=node.cwd)
    assert found["HOME"] != node.home


def test_the_settings_say_where_models_are_above_all(node: NodeFacts):
    settings = CacheSettings(hf_home=Path("/hub"))
    assert places(settings, replace(node, environ={"HF_HOME": "/elsewhere"}))["HF_HOME"] == Path("/hub")


def test_a_relative_directory_is_meant_from_where_the_caller_stands(node: NodeFacts):
    found = places(CacheSettings(shared=Path("caches"), local=Path("fast")), node)
    assert found["HOME"] == node.cwd / "caches" / "sglang-0.5.23" / "home"
    assert found["TRITON_CACHE_DIR"] == node.cwd / "fast" / "sglang-0.5.23" / "triton"


def test_the_shared_directory_follows_the_callers_cache_home(node: NodeFacts):
    assert shared_root(CacheSettings(), replace(node, environ={"XDG_CACHE_HOME": "/xdg"})) == Path("/xdg/supervise")


def test_every_rule_has_a_reason_and_a_variable_of_its_own():
    assert all(rule.reason for rule in CACHE_RULES)
    assert len({rule.variable for rule in CACHE_RULES}) == len(CACHE_RULES)


def test_every_cache_directory_is_what_the_engine_is_told(planned: Callable[..., Plan]):
    plan = planned()
    told = {variable.name: variable.value for variable in plan.environment}
    assert {cache.variable: str(cache.path) for cache in plan.caches} == {
        rule.variable: told[rule.variable] for rule in CACHE_RULES
    }


def test_a_wish_moves_a_cache_or_takes_it_away(planned: Callable[..., Plan]):
    plan = planned('engine.env.TRITON_CACHE_DIR = "/elsewhere"\nengine.env.XDG_CACHE_HOME = ""')
    found = {cache.variable: cache.path for cache in plan.caches}
    assert found["TRITON_CACHE_DIR"] == Path("/elsewhere")
    assert "XDG_CACHE_HOME" not in found
