from dataclasses import replace
from typing import Any

import pytest

from entrypoint.prove.answer import Answer, ToolCall, Usage
from entrypoint.prove.assess import assess, tool_parser_fitting
from entrypoint.prove.probe import Probe, probes
from entrypoint.prove.transcript import CheckSpec, ConfiguredParsers, Failure, FailureKind

TOOL, _, PLAIN, _ = probes(model="tiny", tools=True, max_tokens=512)
CALL = ToolCall("get_weather", '{"city": "Zurich"}')
USAGE = Usage(completion_tokens=51, reasoning_tokens=8, cached_tokens=0)
CALLED = Answer(content="", reasoning="hm", calls=(CALL,), finish_reason="tool_calls", usage=USAGE)
ANSWERED = Answer(content="51", reasoning="hm", calls=(), finish_reason="stop", usage=USAGE)
SPEC = CheckSpec(model="tiny", tools=True, reasoning=True, max_tokens=512, timeout_s=5, cached_tokens=True)
NONE_SET = ConfiguredParsers(reasoning=None, tool_call=None)
QWEN = ConfiguredParsers(reasoning="qwen3", tool_call="qwen")
QWEN_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zurich"}}\n</tool_call>'
THOUGHT = "<think>\nhm\n</think>\n\n51"


def only(probe: Probe, answer: Answer, configured: ConfiguredParsers | None = None, **required: Any) -> Failure:
    failures = assess(probe, answer, replace(SPEC, **required), configured)
    assert len(failures) == 1, failures
    return failures[0]


def test_a_call_beside_its_thought_passes():
    assert assess(TOOL, CALLED, SPEC, QWEN) == ()


def test_an_answer_beside_its_thought_passes():
    assert assess(PLAIN, ANSWERED, SPEC, QWEN) == ()


def test_a_call_as_text_without_a_parser_names_the_parser_that_reads_it():
    failure = only(TOOL, replace(CALLED, calls=(), content=QWEN_CALL, finish_reason="stop"), NONE_SET)
    assert failure.kind is FailureKind.CALL_AS_TEXT
    assert failure.message == (
        "The tool call came as text: no tool-call parser is set. The text is written in the syntax that "
        "`--tool-call-parser qwen` reads (hermes, trinity read it too)."
    )
    assert failure.remedy == 'Set engine.tool_call_parser = "qwen" (--tool-call-parser qwen).'
    assert failure.evidence == QWEN_CALL


def test_a_call_as_text_under_another_parser_says_that_this_one_does_not_read_it():
    kimi = ConfiguredParsers(reasoning="qwen3", tool_call="kimi_k2")
    failure = only(TOOL, replace(CALLED, calls=(), content=QWEN_CALL, finish_reason="stop"), kimi)
    assert "the tool-call parser 'kimi_k2' does not read it" in failure.message


def test_a_call_as_text_of_an_unknown_server_says_missing_or_wrong():
    failure = only(TOOL, replace(CALLED, calls=(), content=QWEN_CALL, finish_reason="stop"))
    assert "the tool-call parser is missing or wrong" in failure.message


def test_a_call_that_its_own_parser_left_is_not_blamed_on_the_setting():
    failure = only(TOOL, replace(CALLED, calls=(), content=QWEN_CALL, finish_reason="stop"), QWEN)
    assert "'qwen' reads this syntax, yet left it" in failure.message
    assert "engine.tool_call_parser" not in failure.remedy


def test_a_call_in_an_unknown_syntax_is_said_to_be_unknown():
    text = '{"tool": "get_weather", "input": {"city": "Zurich"}}'
    failure = only(TOOL, replace(CALLED, calls=(), content=text, finish_reason="stop"), NONE_SET)
    assert failure.kind is FailureKind.CALL_AS_TEXT
    assert "Its syntax is not recognised." in failure.message
    assert '"auto"' in failure.remedy


def test_a_call_inside_the_thought_blames_the_reasoning_parser():
    failure = only(TOOL, replace(CALLED, calls=(), reasoning=f"hm{QWEN_CALL}", finish_reason="stop"), QWEN)
    assert failure.kind is FailureKind.CALL_IN_THOUGHT
    assert "'qwen3' did not find the end of the thought" in failure.message


def test_tokens_that_arrive_as_nothing_were_swallowed_by_the_tool_call_parser():
    coder = ConfiguredParsers(reasoning="qwen3", tool_call="qwen3_coder")
    failure = only(TOOL, replace(CALLED, calls=(), content="\n\n", finish_reason="stop"), coder)
    assert failure.kind is FailureKind.CALL_SWALLOWED
    assert "although 51 tokens were generated: the tool-call parser 'qwen3_coder'" in failure.message
    assert "qwen, hermes, glm47, glm)" in failure.remedy


@pytest.mark.parametrize(
    ("usage", "configured"),
    [
        (replace(USAGE, completion_tokens=12), QWEN),
        (replace(USAGE, reasoning_tokens=None), QWEN),
        (replace(USAGE, completion_tokens=None), QWEN),
        (USAGE, NONE_SET),
    ],
)
def test_nothing_is_called_swallowed_when_all_tokens_are_accounted_for(usage: Usage, configured: ConfiguredParsers):
    failure = only(TOOL, replace(CALLED, calls=(), finish_reason="stop", usage=usage), configured)
    assert failure.kind is FailureKind.NO_CALL


def test_prose_that_mentions_the_tool_is_an_answer_without_a_call():
    text = "I would use get_weather for Zurich, but I cannot."
    failure = only(TOOL, replace(CALLED, calls=(), content=text, finish_reason="stop"), QWEN)
    assert failure.kind is FailureKind.NO_CALL
    assert failure.evidence == text


def test_prose_that_mentions_the_tool_beside_a_call_is_fine():
    assert assess(TOOL, replace(CALLED, content="Let me call get_weather."), SPEC, QWEN) == ()


def test_markup_beside_a_call_is_a_failure():
    assert only(TOOL, replace(CALLED, content=QWEN_CALL), QWEN).kind is FailureKind.CALL_TWICE


def test_another_function_name_is_a_failure():
    failure = only(TOOL, replace(CALLED, calls=(replace(CALL, name="functions.get_weather:0"),)), QWEN)
    assert failure.kind is FailureKind.WRONG_FUNCTION


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{", "they are not JSON"),
        ('"Zurich"', "they are no JSON object"),
        ("{}", "the required key 'city' is missing"),
        ('{"city": 8000}', "'city' is no string"),
    ],
)
def test_arguments_that_miss_the_schema_say_how(arguments: str, problem: str):
    failure = only(TOOL, replace(CALLED, calls=(replace(CALL, arguments=arguments),)), QWEN)
    assert failure.kind is FailureKind.WRONG_ARGUMENTS
    assert problem in failure.message


def test_arguments_beyond_the_schema_are_fine():
    call = replace(CALL, arguments='{"city": "Zurich", "unit": "celsius"}')
    assert assess(TOOL, replace(CALLED, calls=(call,)), SPEC, QWEN) == ()


def test_a_call_whose_finish_reason_is_stop_is_a_failure():
    failure = only(TOOL, replace(CALLED, finish_reason="stop"), QWEN)
    assert failure.kind is FailureKind.WRONG_FINISH


@pytest.mark.parametrize("probe", [TOOL, PLAIN])
def test_a_budget_that_ends_inside_the_thought_is_no_failure_of_a_parser(probe: Probe):
    usage = replace(USAGE, completion_tokens=512, reasoning_tokens=512)
    failure = only(probe, replace(ANSWERED, content="", finish_reason="length", usage=usage), QWEN)
    assert failure.kind is FailureKind.BUDGET
    assert failure.message == "The budget of 512 tokens ended inside the thought."
    assert "prove.max_tokens" in failure.remedy


def test_a_budget_that_ends_inside_the_call_says_so():
    call = replace(CALL, arguments='{"ci')
    failure = only(TOOL, replace(CALLED, calls=(call,), finish_reason="length"), QWEN)
    assert failure.message == "The budget of 512 tokens ended inside the tool call."


def test_a_budget_that_ends_before_the_call_says_so():
    failure = only(TOOL, replace(CALLED, calls=(), content="Let me", finish_reason="length"), QWEN)
    assert failure.message == "The budget of 512 tokens ended before a tool call was complete."


def test_a_budget_that_ends_between_thought_and_answer_says_so():
    failure = only(PLAIN, replace(ANSWERED, content="", finish_reason="length"), QWEN)
    assert failure.message == "The budget of 512 tokens ended before the answer began."


def test_an_answer_that_is_merely_long_passes():
    assert assess(PLAIN, replace(ANSWERED, content="51, " * 99, finish_reason="length"), SPEC, QWEN) == ()


def test_a_thought_in_the_content_names_the_reasoning_parser_of_the_tool_call_parser_s_family():
    glm = ConfiguredParsers(reasoning=None, tool_call="glm47")
    failure = only(PLAIN, replace(ANSWERED, content=THOUGHT, reasoning=""), glm)
    assert failure.kind is FailureKind.THOUGHT_IN_CONTENT
    assert "no reasoning parser is set" in failure.message
    assert failure.remedy == 'Set engine.reasoning_parser = "glm45" (--reasoning-parser glm45).'


def test_a_thought_in_the_content_names_the_family_that_the_call_as_text_shows():
    text = '<think>hm</think><|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0{"city": "Zurich"}'
    answer = replace(ANSWERED, content=text, reasoning="")
    failures = assess(TOOL, answer, SPEC, NONE_SET, tool_parser_fitting(answer))
    assert [failure.kind for failure in failures] == [FailureKind.CALL_AS_TEXT, FailureKind.THOUGHT_IN_CONTENT]
    assert 'engine.tool_call_parser = "kimi_k2"' in failures[0].remedy
    assert 'engine.reasoning_parser = "kimi_k2"' in failures[1].remedy


def test_a_thought_in_the_content_of_an_unknown_server_names_a_common_parser():
    failure = only(PLAIN, replace(ANSWERED, content=THOUGHT, reasoning=""))
    assert 'engine.reasoning_parser = "qwen3"' in failure.remedy


def test_a_thought_that_the_prompt_began_names_a_parser_that_needs_no_beginning():
    failure = only(PLAIN, replace(ANSWERED, content="hm</think>51", reasoning=""), NONE_SET)
    assert 'engine.reasoning_parser = "deepseek-r1"' in failure.remedy


def test_a_thought_in_the_content_is_wrong_even_if_none_is_required():
    failure = only(PLAIN, replace(ANSWERED, content=THOUGHT, reasoning=""), QWEN, reasoning=False)
    assert failure.kind is FailureKind.THOUGHT_IN_CONTENT


def test_no_thought_anywhere_is_a_failure_when_one_is_required():
    failure = only(PLAIN, replace(ANSWERED, reasoning="  "), QWEN)
    assert failure.kind is FailureKind.NO_THOUGHT
    assert "the reasoning parser is 'qwen3'" in failure.message
    assert "prove.reasoning = false" in failure.remedy


def test_no_thought_of_an_unknown_server_says_that_its_parser_is_not_known():
    failure = only(PLAIN, replace(ANSWERED, reasoning=""))
    assert "the server does not say which reasoning parser it uses" in failure.message


def test_no_thought_is_fine_when_none_is_required():
    assert assess(PLAIN, replace(ANSWERED, reasoning=""), replace(SPEC, reasoning=False), QWEN) == ()


def test_an_answer_that_is_all_thought_blames_the_reasoning_parser():
    failure = only(PLAIN, replace(ANSWERED, content="\n"), QWEN)
    assert failure.kind is FailureKind.EMPTY_ANSWER
    assert "everything the model said is in reasoning_content" in failure.message
    assert failure.evidence == "hm"


def test_an_empty_answer_is_a_failure():
    failure = only(PLAIN, replace(ANSWERED, content="", reasoning=""), QWEN, reasoning=False)
    assert failure.kind is FailureKind.EMPTY_ANSWER
    assert "neither content nor a thought arrived" in failure.message


@pytest.mark.parametrize(
    ("usage", "missing"),
    [(None, "usage is missing"), (replace(USAGE, cached_tokens=None), "cached_tokens is missing")],
)
def test_an_answer_without_cached_tokens_names_the_setting(usage: Usage | None, missing: str):
    failure = only(PLAIN, replace(ANSWERED, usage=usage), QWEN)
    assert failure.kind is FailureKind.NO_CACHED_TOKENS
    assert missing in failure.message
    assert "engine.enable_cache_report" in failure.remedy


def test_cached_tokens_are_not_missed_when_they_are_not_required():
    assert assess(PLAIN, replace(ANSWERED, usage=None), replace(SPEC, cached_tokens=False), QWEN) == ()


def test_evidence_is_cut():
    failure = only(PLAIN, replace(ANSWERED, content=THOUGHT + "x" * 5000, reasoning=""), QWEN)
    assert len(failure.evidence) == 600
