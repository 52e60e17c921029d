"""Rules about the two parsers: without the right ones a server looks healthy and answers tool calls as prose."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.families import family_of
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

_AUTO = frozenset({"", "auto"})


def _missing(plan: RuleInput) -> Iterator[Hit]:
    wanted = (
        ("tool_call_parser", plan.settings.prove.tools, "tool calls arrive as prose in content", "prove.tools"),
        ("reasoning_parser", plan.settings.prove.reasoning, "thoughts stay in content", "prove.reasoning"),
    )
    for name, required, consequence, switch in wanted:
        if required and not any(plan.meaning.get(name, ())):
            yield Hit(
                f"No {name.replace('_', '-')} is named: the server would start and look healthy while {consequence}.",
                f'Set engine.{name} to the model\'s parser or to "auto"; for a model that has no use for it set '
                f"{switch} = false.",
                f"engine.{name}",
            )


def _of_another_family(plan: RuleInput) -> Iterator[Hit]:
    family = family_of(plan.value("model_path"))
    if family is None:
        return
    for name, fitting in (("reasoning_parser", family.reasoning_parsers), ("tool_call_parser", family.tool_parsers)):
        given = plan.value(name)
        if given not in _AUTO and given not in fitting:
            yield Hit(
                f"--{name.replace('_', '-')} {given} does not read what {family.name} writes: the server would look "
                f"healthy and answer wrongly.",
                f"Set engine.{name} to {' or '.join(sorted(fitting))}; where this model writes otherwise than its name "
                f"says, ignore the rule.",
                f"engine.{name}",
            )


RULES = (
    Rule(
        "parsers-both",
        Severity.ERROR,
        "whether both parsers are named",
        "With one of them missing the first use of the other feature fails: with a 400, or with the call or the "
        "thought as prose in an answer of status 200. Nothing in the engine's log says so.",
        "seen again and again on these nodes; SGLang 0.5.23",
        "Name both parsers, or say with prove.tools or prove.reasoning that the model has no use for one.",
        _missing,
    ),
    Rule(
        "parser-family",
        Severity.ERROR,
        "the parsers against the family that the model's name tells",
        "A parser of another family finds nothing in the model's answers, and leaves everything in content.",
        "SGLang's parsers and cookbook, 0.5.23",
        "Name the parsers of the model's own family.",
        _of_another_family,
    ),
)
