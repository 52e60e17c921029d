"""Profiles: every packaged one loads, explains each of its settings, and is found by its name."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings import profiles
from entrypoint.settings.layers import Layer, ResolvedSettings, load

OPEN_TABLES = {"engine.args", "engine.env"}


def dotted_names(values: Mapping[str, object], above: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and above not in OPEN_TABLES:
            yield from dotted_names(value, f"{above}.{key}" if above else key)
        else:
            yield f"{above}.{key}" if above else key


def resolve(name: str) -> ResolvedSettings:
    return load(
        profile=name,
        config_files=[],
        overrides=[],
        extra_arguments=[],
        environ={},
        cwd=Path("/nonexistent"),
        etc=Path("/nonexistent"),
    )


@pytest.mark.parametrize("name", profiles.names())
def test_every_setting_of_a_profile_has_a_reason_and_no_reason_is_left_over(name: str):
    profile = profiles.read(name)
    assert set(profile.reasons) == set(dotted_names(profile.values))


@pytest.mark.parametrize("name", profiles.names())
def test_every_reason_is_a_sentence(name: str):
    for reason in profiles.read(name).reasons.values():
        assert reason[0].isupper()
        assert reason.endswith(".")


@pytest.mark.parametrize("name", profiles.names())
def test_every_profile_says_what_it_is_for_and_what_was_verified(name: str):
    profile = profiles.read(name)
    assert profile.name == name
    assert profile.title
    assert {"title", "engine", "verified"} == set(profile.about)
    assert profile.nodes >= 1
    assert profile.family


@pytest.mark.parametrize("name", profiles.names())
def test_a_profiles_fraction_is_one_that_was_seen_or_is_left_out(name: str):
    profile = profiles.read(name)
    fraction = resolve(name).settings.engine.mem_fraction_static
    rows = [seen for seen in profile.seen if seen.mem_fraction_static == fraction]
    assert name == "tiny" or fraction is None or rows
    assert all(seen.kind in {"measured", "comment"} for seen in profile.seen)


@pytest.mark.parametrize("name", sorted(set(profiles.names()) - {"tiny"}))
def test_a_profile_for_the_cluster_names_both_parsers_and_decides_on_the_attention_backend(name: str):
    engine = resolve(name).settings.engine
    assert engine.reasoning_parser not in {None, "", "auto"}
    assert engine.tool_call_parser not in {None, "", "auto"}
    assert engine.attention_backend is not None


def test_a_profile_that_nobody_has_proven_says_so_and_invents_no_fraction():
    profile = profiles.read("gptoss120b")
    assert "no recipe for SGLang is proven" in profile.title
    assert resolve("gptoss120b").settings.engine.mem_fraction_static is None


def test_a_comment_is_shown_as_no_measurement():
    assert any(seen.kind == "comment" for seen in profiles.read("kimi27").seen)


@pytest.mark.parametrize("name", profiles.names())
def test_every_profile_is_valid_by_itself_and_all_of_it_arrives(name: str):
    origins = resolve(name).origins
    arrived = {setting for setting, origin in origins.items() if origin.layer is Layer.PROFILE}
    assert arrived == set(dotted_names(profiles.read(name).values))


@pytest.mark.parametrize("name", profiles.names())
def test_no_profile_names_a_profile_or_a_path_of_a_machine(name: str):
    settings = resolve(name).settings
    assert "profile" not in profiles.read(name).values
    assert settings.engine.python is None
    assert settings.caches.shared is None


def test_the_tiny_profile_runs_on_a_cpu():
    settings = resolve("tiny").settings
    assert settings.engine.device == "cpu"
    assert settings.engine.env == {"SGLANG_USE_CPU_ENGINE": "1"}
    assert settings.engine.args == {"max-total-tokens": 8192}
    assert settings.model.path is None


@pytest.mark.parametrize("name", ["tinny", "Tiny"])
def test_an_unknown_profile_names_the_nearest_and_all_there_are(name: str):
    with pytest.raises(SuperviseError) as caught:
        profiles.read(name)
    assert caught.value.code is ExitCode.CONFIGURATION
    assert repr(name) in caught.value.message
    assert "Did you mean 'tiny'?" in caught.value.remedy
    assert caught.value.remedy.endswith(f"The packaged profiles are: {', '.join(profiles.names())}.")


@pytest.mark.parametrize("name", ["zzzzzz", "", "../profiles/tiny", "/etc/passwd", "tiny.toml\0"])
def test_a_name_is_never_a_path(name: str):
    with pytest.raises(SuperviseError):
        profiles.read(name)


def test_listing_profiles_imports_neither_the_schema_nor_a_parser():
    listing = "import sys; from entrypoint.settings import profiles; profiles.names(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert {"pydantic", "tomli", "pydantic_settings"}.isdisjoint(done.stdout.split())
    assert "entrypoint.settings.profiles" in done.stdout.split()
