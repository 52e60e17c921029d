"""The plan: pure, and what follows from it for clients."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from entrypoint.engine.flags import FlagTable
from entrypoint.node.facts import NodeFacts
from entrypoint.plan.plan import Plan
from entrypoint.settings.secrets import Secrets

Planned = Callable[..., Plan]


def test_the_same_inputs_make_the_same_plan(planned: Planned, table: FlagTable):
    assert planned("engine.port = 8000", flags=table) == planned("engine.port = 8000", flags=table)
    assert planned("engine.port = 8000", flags=table) != planned("engine.port = 8001", flags=table)


def test_making_a_plan_touches_no_disk(planned: Planned, node: NodeFacts):
    planned('caches.shared = "caches"')
    assert not node.home.exists()
    assert not node.cwd.exists()


@pytest.mark.parametrize(
    ("toml", "extra", "generated"),
    [
        ("", (), False),
        ('engine.host = "localhost"', (), False),
        ('engine.host = "::1"', (), False),
        ('engine.host = "0.0.0.0"', (), True),
        ('engine.host = "nid1"', (), True),
        ("", ("--host", "0.0.0.0"), True),
        ('engine.host = "0.0.0.0"', ("--host", "127.0.0.1"), False),
        ('engine.host = "0.0.0.0"\nengine.api_key = "s3cret-key"', (), False),
        ('engine.host = "0.0.0.0"\nengine.admin_api_key = "s3cret-key"', (), True),
        ('engine.host = "0.0.0.0"\nengine.access = "open"', (), False),
    ],
)
def test_a_key_is_made_up_exactly_where_others_could_come_without_one(
    planned: Planned, toml: str, extra: Sequence[str], *, generated: bool
):
    plan = planned(toml, extra)
    assert plan.generate_key is generated
    assert (plan.key_file is not None) == (generated or "api_key" in toml)


@pytest.mark.parametrize(
    ("toml", "extra", "client", "local"),
    [
        ("", (), "http://127.0.0.1:30000/v1", "http://127.0.0.1:30000"),
        ('engine.host = "0.0.0.0"', (), "http://nid1:30000/v1", "http://127.0.0.1:30000"),
        ('engine.host = "::"', (), "http://nid1:30000/v1", "http://[::1]:30000"),
        ('engine.host = "::1"', (), "http://[::1]:30000/v1", "http://[::1]:30000"),
        ('engine.host = "nid7"', ("--port", "8"), "http://nid7:8/v1", "http://nid7:8"),
        ('engine.host = ""', (), "http://127.0.0.1:30000/v1", "http://127.0.0.1:30000"),
    ],
)
def test_clients_and_the_supervisor_know_where_to_reach_the_engine(
    planned: Planned, toml: str, extra: Sequence[str], client: str, local: str
):
    plan = planned(toml, extra)
    assert (plan.client_url, plan.local_url) == (client, local)


@pytest.mark.parametrize(
    ("toml", "model", "name"),
    [
        ('model.served_name = "tiny"', "/m", "tiny"),
        ("", "/m", "/m"),
        ("", "", "default"),
        ('engine.args.served-model-name = "other"\nmodel.served_name = "tiny"', "/m", "other"),
    ],
)
def test_clients_know_the_model_by_the_name_that_the_engine_is_given(
    planned: Planned, toml: str, model: str, name: str
):
    assert planned(toml, model=model).served_name == name


def test_a_run_writes_into_a_directory_of_its_own_below_where_it_was_started(planned: Planned, node: NodeFacts):
    plan = planned()
    assert plan.run_directory == node.cwd / "logs" / "7.0.0"
    assert plan.log_path == plan.run_directory / "server-0.log"
    assert planned('logs.dir = "/logs"').run_directory == Path("/logs/7.0.0")


def test_a_second_rank_writes_a_log_of_its_own(planned: Planned, two_nodes: NodeFacts):
    assert planned(on=two_nodes).log_path.name == "server-1.log"


def test_the_hub_token_reaches_the_engine_and_stands_nowhere_in_the_plan(planned: Planned):
    plan = planned(environ={"HF_TOKEN": "hf_old"})
    secrets = Secrets(None, None, SecretStr("hf_s3cret"))
    assert plan.engine_environment(secrets)["HF_TOKEN"] == "hf_s3cret"
    assert plan.engine_environment(replace(secrets, hf_token=None))["HF_TOKEN"] == "hf_old"
    assert "hf_s3cret" not in repr(plan)


def test_no_key_stands_in_the_plan(planned: Planned):
    assert "s3cret-key" not in repr(planned('engine.api_key = "s3cret-key"\nengine.admin_api_key = "s3cret-key"'))
