"""A plan in words: a command that a shell runs as the supervisor would, and data for programs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from entrypoint.engine.flags import FlagTable
from entrypoint.plan.plan import Plan
from entrypoint.plan.render import data, shell
from entrypoint.settings.redaction import Masker
from entrypoint.settings.secrets import Secrets

Planned = Callable[..., Plan]
NOTHING = Masker()
NOBODY = Secrets(None, None, None)


@pytest.fixture
def stub_python(tmp_path: Path) -> Path:
    """An interpreter that prints how it was called instead of starting a server."""
    stub = tmp_path / "stub python"
    stub.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps([sys.argv, dict(os.environ)]))\n", "utf-8"
    )
    stub.chmod(0o700)
    return stub


def called(script: str, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=environ, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    argv, environment = json.loads(done.stdout)
    return argv, environment


AWKWARD = r"""
[engine.args]
chat-template = '''a "b" $HOME `id` \ * ; & | 'c' ü'''
json-model-override-args = {a = "two words", b = [1, 2]}
lora-paths = ["x=/a b", "y=/c"]
[engine.env]
PLAIN = "1"
SPACES = "two  words"
QUOTES = '''it's "quoted" $HOME \ `id`'''
NEWLINE = "one\ntwo\n"
"""


def test_the_shell_runs_exactly_what_the_supervisor_would(planned: Planned, stub_python: Path):
    environ = {"PATH": os.environ["PATH"], "NCCL_NET": "ofi", "KEPT": "yes", "PYTHONUTF8": "1"}
    plan = planned(AWKWARD, environ=environ)
    plan = replace(plan, argv=(str(stub_python), *plan.argv[1:]))
    argv, environment = called(shell(plan, NOTHING), environ)
    assert argv == list(plan.argv)
    expected = dict(plan.engine_environment(NOBODY))
    ignored = {"_", "PWD", "SHLVL", "OLDPWD", "LC_CTYPE"}
    assert {k: v for k, v in environment.items() if k not in ignored} == expected
    assert "NCCL_NET" not in environment


def test_a_variable_that_is_removed_twice_over_is_removed(planned: Planned, stub_python: Path):
    plan = planned('engine.env.GONE = ""\nengine.env.NCCL_NET = ""', environ={})
    plan = replace(plan, argv=(str(stub_python), *plan.argv[1:]))
    _, environment = called(shell(plan, NOTHING), {"PATH": os.environ["PATH"], "GONE": "1", "NCCL_NET": "ofi"})
    assert not {"GONE", "NCCL_NET"} & environment.keys()


def test_each_flag_has_a_line_of_its_own_with_its_values(planned: Planned):
    lines = shell(planned('engine.args.lora-paths = ["a", "b"]'), NOTHING).splitlines()
    assert "  --lora-paths a b" in lines
    assert "  --port 30000 \\" in lines


def test_secrets_are_masked_and_a_comment_says_so(planned: Planned):
    plan = planned('engine.env.MY_TOKEN = "s3cret-token"')
    text = shell(plan, Masker(["s3cret-token"]))
    assert "s3cret-token" not in text
    assert "# *** stands for a secret" in text.splitlines()


def test_where_nothing_is_masked_nothing_is_said_about_it(planned: Planned):
    assert "***" not in shell(planned('engine.env.MINE = "1"'), Masker(["s3cret-token"]))


def test_a_comment_names_the_file_with_the_keys(planned: Planned):
    plan = planned('engine.api_key = "s3cret-key"')
    (comment,) = [line for line in shell(plan, NOTHING).splitlines() if line.startswith("#")]
    assert str(plan.key_file) in comment
    assert "engine-keys" not in shell(planned(), NOTHING)


def test_a_comment_names_the_file_that_the_hub_token_comes_from(planned: Planned, tmp_path: Path):
    (tmp_path / "token").write_text("hf_s3cret")
    text = shell(planned(f'model.hf_token_file = "{tmp_path}/token"'), NOTHING)
    assert f"# HF_TOKEN is read from {tmp_path}/token when the run starts" in text.splitlines()
    assert "hf_s3cret" not in text


def rendered(plan: Plan, masker: Masker = NOTHING) -> dict[str, Any]:
    """Return the data as a reader gets it."""
    read: dict[str, Any] = json.loads(json.dumps(data(plan, masker)))
    return read


def test_data_hold_the_command_and_every_variable_with_its_reason(planned: Planned):
    plan = planned(environ={"NCCL_NET": "ofi"})
    found = rendered(plan)
    assert found["argv"] == list(plan.argv)
    variables = {variable["name"]: variable for variable in found["environment"]}
    assert variables.keys() == {variable.name for variable in plan.environment}
    assert variables["NCCL_NET"] == {
        "name": "NCCL_NET",
        "value": None,
        "reason": "a forced network plugin ends a server of one node at its start",
        "treatment": "unset",
        "previous": "ofi",
    }
    assert all(variable["reason"] for variable in variables.values())


def test_data_hold_caches_findings_and_where_each_setting_was_set(planned: Planned, tmp_path: Path):
    found = rendered(planned("engine.port = 30900"))
    assert {"variable", "path", "layer", "key", "kept", "keeping", "reason"} == found["caches"][0].keys()
    assert found["cache_key"] == {"software": "sglang-unknown", "architecture": "cpu", "family": "any"}
    assert found["cache_trees"].keys() == {"image", "shared", "local"}
    assert [finding["rule"] for finding in found["findings"]] == ["ports-clash", "flags-unchecked"]
    assert found["findings"][0]["severity"] == "error"
    assert found["provenance"]["engine.port"] == {"layer": "file", "source": f"{tmp_path}/settings.toml:1"}
    assert found["provenance"]["health.port"]["layer"] == "default"
    assert found["files"] == [f"{tmp_path}/settings.toml"]
    assert found["settings"]["engine"]["port"] == 30900


def test_data_say_whether_flags_were_checked(planned: Planned, table: FlagTable):
    assert rendered(planned(flags=table))["engine"]["flags_checked"] is True
    assert rendered(planned())["engine"]["flags_checked"] is False


def test_data_say_where_in_slurm_this_is(planned: Planned, two_nodes: Any):
    assert rendered(planned())["slurm"] is None
    found = rendered(planned(on=two_nodes))
    assert found["slurm"] == {"job": 7, "step": "0", "node": "nid1"}
    assert (found["rank"], found["nodes"], found["host"]) == (1, 2, "nid1")


def test_secrets_are_masked_in_data(planned: Planned):
    toml = 'engine.api_key = "s3cret-key"\nengine.env.MY_TOKEN = "s3cret-token"\nengine.args.x = "s3cret-key"'
    text = json.dumps(rendered(planned(toml), Masker(["s3cret-key", "s3cret-token"])))
    assert "s3cret" not in text
    assert "***" in text


def test_a_key_of_the_settings_is_masked_even_by_who_does_not_know_it(planned: Planned):
    assert "s3cret-key" not in json.dumps(rendered(planned('engine.api_key = "s3cret-key"')))
