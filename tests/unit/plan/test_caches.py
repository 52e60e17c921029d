"""Where caches lie, and that models stay where they were."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from entrypoint.node.facts import NodeFacts
from entrypoint.plan.cache_key import CacheKey
from entrypoint.plan.caches import CACHE_RULES, CacheLayer, layout, shared_root, trees
from entrypoint.plan.plan import Plan
from entrypoint.settings.schema import CacheSettings

KEY = CacheKey("sglang-0.5.23", "gfx942", "qwen3")
BELOW = "sglang-0.5.23/gfx942/qwen3"


def places(settings: CacheSettings, node: NodeFacts) -> dict[str, Path]:
    return {cache.variable: cache.path for cache in layout(settings, node, trees(settings, node, KEY))}


def test_by_default_engines_write_below_tmp_in_a_directory_of_this_user(node: NodeFacts):
    found = places(CacheSettings(), replace(node, user_id=1234))
    below = Path("/tmp/supervise-1234", BELOW)
    assert found["AITER_JIT_DIR"] == below / "aiter" / "jit"
    assert found["TRITON_CACHE_DIR"] == below / "triton"
    assert found["HOME"] == below / "home"


def test_no_engine_writes_into_the_shared_tree(node: NodeFacts):
    found = places(CacheSettings(shared=Path("/net"), local=Path("/fast")), node)
    assert not any(path.is_relative_to("/net") for path in found.values())
    assert {name for name, path in found.items() if not path.is_relative_to(Path("/fast", BELOW))} == {"HF_HOME"}


def test_every_tree_has_the_same_places_below_its_key(node: NodeFacts):
    settings = CacheSettings(shared=Path("/net"), local=Path("/fast"), image=Path("/image"))
    where = trees(settings, node, KEY)
    assert (where.shared, where.local, where.image) == (Path("/net", BELOW), Path("/fast", BELOW), Path("/image"))
    for cache in layout(settings, node, where):
        assert cache.layer is CacheLayer.HUB or cache.path == where.local / cache.place


def test_the_local_directory_does_not_follow_tmpdir_which_is_another_for_each_job(node: NodeFacts):
    one, other = (replace(node, environ={"TMPDIR": f"/tmp/job{number}"}) for number in (1, 2))
    assert places(CacheSettings(), one) == places(CacheSettings(), other)


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
    assert found["TRITON_CACHE_DIR"] == node.cwd / "fast" / BELOW / "triton"
    assert trees(CacheSettings(shared=Path("caches")), node, KEY).shared == node.cwd / "caches" / BELOW


def test_the_shared_directory_follows_the_callers_cache_home(node: NodeFacts):
    assert shared_root(CacheSettings(), replace(node, environ={"XDG_CACHE_HOME": "/xdg"})) == Path("/xdg/supervise")


def test_every_rule_has_reasons_and_a_variable_of_its_own():
    assert all(rule.reason and rule.keeping for rule in CACHE_RULES)
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
    (moved,) = (cache for cache in plan.caches if cache.variable == "TRITON_CACHE_DIR")
    assert (moved.place, moved.entries) == ("", ())
    assert "XDG_CACHE_HOME" not in found
