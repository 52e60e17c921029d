"""The cache key: what compiled code depends on, as names of directories."""

from pathlib import PurePosixPath

import pytest

from entrypoint.engine.stack import EngineStack
from entrypoint.plan.cache_key import CacheKey, cache_key

STACK = EngineStack(None, {"torch": "2.13.0+rocm7.2", "sglang": "0.5.23", "amd-aiter": "0.1.9"}, "7.2.4")
VERSIONS = "sglang-0.5.23_torch-2.13.0+rocm7.2_amd-aiter-0.1.9_rocm-7.2.4"


def test_outside_of_an_image_the_versions_tell_caches_apart():
    assert cache_key("auto", STACK, "gfx942", "Qwen/Qwen3-32B") == CacheKey(VERSIONS, "gfx942", "qwen3")


def test_an_image_tells_its_build():
    assert cache_key("auto", EngineStack("2026-12-01-abc"), "gfx942", "").software == "2026-12-01-abc"


def test_the_users_word_for_the_software_beats_both():
    assert cache_key("mine", EngineStack("build"), "gfx942", "").software == "mine"


@pytest.mark.parametrize(
    ("wished", "name"), [("../../etc", "etc"), ("a/b c", "a-b-c"), ("..", "unknown"), ("", "unknown"), ("-x.", "x")]
)
def test_no_word_leads_out_of_the_directory(wished: str, name: str):
    key = cache_key(wished, EngineStack(), "", "")
    assert key.software == name
    assert key.directory == PurePosixPath(name, "cpu", "any")


@pytest.mark.parametrize(
    ("model", "family"),
    [("moonshotai/Kimi-K2.7-Code", "kimi-k2"), ("Qwen/Qwen3.8-27B-FP8", "qwen3.5-and-later"), ("/models/own", "any")],
)
def test_the_family_is_the_models(model: str, family: str):
    assert cache_key("auto", STACK, "gfx942", model).family == family


def test_without_any_version_the_key_says_so():
    assert cache_key("auto", EngineStack(None, {}), "", "").software == "sglang-unknown"
