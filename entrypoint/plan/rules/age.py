"""Rules about the age of numbers: a number belongs to the engine that it was measured with."""

import re
from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

_VERSION = re.compile(r"\bSGLang (\d+\.\d+(?:\.\d+)?)")


def _measured_elsewhere(plan: RuleInput) -> Iterator[Hit]:
    if plan.profile is None:
        return
    about = plan.profile.about["engine"]
    measured = _VERSION.search(about)
    if plan.engine_version and measured and measured.group(1) != plan.engine_version:
        yield Hit(
            f"The numbers of profile {plan.profile.name} are from SGLang {measured.group(1)}, and this is "
            f"{plan.engine_version}."
        )
    elif measured is None:
        yield Hit(f"Nobody knows with which engine the numbers of profile {plan.profile.name} were measured: {about}.")


RULES = (
    Rule(
        "numbers-aged",
        Severity.NOTE,
        "the engine at hand against the one that a profile's numbers were measured with",
        "Engine, ROCm and image all move: a number that cannot be reproduced is a hypothesis.",
        "the operators' notes for MI300A, August 2026",
        "Measure anew before a decision hangs on it.",
        _measured_elsewhere,
        "profile",
    ),
)
