"""What is checked once the engine has started."""

from collections.abc import Callable

import pytest

from entrypoint.plan.plan import Plan
from entrypoint.plan.rules.after_start import judge_started

Planned = Callable[..., Plan]


@pytest.mark.parametrize(
    ("toml", "model", "chosen", "words"),
    [
        (
            "engine.attention_backend = 'aiter'",
            "/models/llama",
            "triton",
            "chose triton attention, and the command names aiter",
        ),
        ("", "zai-org/GLM-5.3", "aiter", "chose aiter attention, and the model's own override would pick dsa"),
    ],
)
def test_another_backend_than_planned_is_found(planned: Planned, toml: str, model: str, chosen: str, words: str):
    (finding,) = judge_started(planned(toml, model=model), {"attention_backend": chosen})
    assert finding.rule == "backend-other"
    assert words in finding.message


@pytest.mark.parametrize(
    ("toml", "model", "told"),
    [
        ("engine.attention_backend = 'aiter'", "/models/llama", {"attention_backend": "aiter"}),
        ("", "/models/llama", {"attention_backend": "triton"}),  # nobody counts on one
        ("engine.attention_backend = 'aiter'", "/models/llama", {}),  # the log did not say
        ("", "zai-org/GLM-5.3", {"attention_backend": "dsa"}),
        ("", "zai-org/GLM-5.3", {"attention_backend": "nsa"}),
    ],
)
def test_the_planned_backend_or_none_in_particular_is_nothing_to_speak_of(
    planned: Planned, toml: str, model: str, told: dict[str, str]
):
    assert judge_started(planned(toml, model=model), told) == ()
