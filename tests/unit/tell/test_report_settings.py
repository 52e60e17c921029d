"""Settings that a report shows."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from entrypoint.settings.layers import load
from entrypoint.settings.redaction import Masker
from entrypoint.tell.report_settings import ALWAYS, SettingShown, settings_shown


def shown(
    tmp_path: Path,
    toml: str = "",
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[tuple[str, str]] = (),
    extra: Sequence[str] = (),
    masker: Masker | None = None,
) -> dict[str, SettingShown]:
    """Return what a report shows of settings, by name."""
    (tmp_path / "supervise.toml").write_text(toml)
    resolved = load(
        profile=None,
        config_files=(),
        overrides=overrides,
        extra_arguments=extra,
        environ=environ or {},
        cwd=tmp_path,
        etc=tmp_path / "etc.toml",
    )
    return {setting.name: setting for setting in settings_shown(resolved, masker or Masker())}


def test_without_anything_set_only_those_that_always_matter_are_shown(tmp_path: Path):
    found = shown(tmp_path)
    assert set(found) == ALWAYS
    assert found["engine.reasoning_parser"] == SettingShown("engine.reasoning_parser", "auto", "default", "default")
    assert found["engine.mem_fraction_static"].value is None


def test_what_somebody_has_set_is_shown_with_its_layer(tmp_path: Path):
    found = shown(
        tmp_path,
        '[engine]\nport = 31000\nattention_backend = ""\n[engine.args]\nlanguage-only = true\n"a.b" = 3',
        environ={"SUPERVISE_DRAIN__TIMEOUT_S": "20"},
        overrides=[("engine.mem_fraction_static", "0.3")],
    )
    assert set(found) == ALWAYS | {"engine.port", "engine.args.language-only", "engine.args.a.b", "drain.timeout_s"}
    assert found["engine.port"].value == 31000
    assert found["engine.port"].source.endswith("supervise.toml:2")
    assert found["engine.attention_backend"].value == ""
    assert found["engine.args.language-only"].value is True
    assert found["engine.args.a.b"].value == 3
    assert (found["drain.timeout_s"].layer, found["drain.timeout_s"].source) == (
        "environment",
        "SUPERVISE_DRAIN__TIMEOUT_S",
    )
    assert found["engine.mem_fraction_static"].layer == "command line"


def test_words_for_the_engine_are_shown_as_they_are(tmp_path: Path):
    assert shown(tmp_path, extra=("--dtype", "half"))["--"].value == ["--dtype", "half"]
    assert "--" not in shown(tmp_path)


@pytest.mark.parametrize(
    ("toml", "name"),
    [
        ('[engine]\napi_key = "k3y-of-mine"', "engine.api_key"),
        ('[engine.env]\nHF_TOKEN = "k3y-of-mine"', "engine.env.HF_TOKEN"),
        (
            '[engine.args]\nmodel-loader-extra-config = {api_key = "k3y-of-mine"}',
            "engine.args.model-loader-extra-config",
        ),
    ],
)
def test_a_secret_that_only_its_name_betrays_is_masked(tmp_path: Path, toml: str, name: str):
    value = str(shown(tmp_path, toml)[name].value)
    assert "k3y" not in value
    assert "***" in value


def test_a_known_secret_is_masked_among_the_words_for_the_engine(tmp_path: Path):
    masker = Masker(["k3y-of-mine"])
    assert shown(tmp_path, extra=("--x", "k3y-of-mine"), masker=masker)["--"].value == ["--x", "***"]
