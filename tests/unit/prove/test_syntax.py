import json
from pathlib import Path

import pytest

from entrypoint.prove.syntax import (
    REASONING_PARTNERS,
    SHARED_MARKER_PARSERS,
    THOUGHT_SYNTAXES,
    TOOL_CALL_SYNTAXES,
    holds_unknown_call,
    recognise,
)

RECORDED = json.loads(
    (Path(__file__).parents[2] / "data" / "prove" / "syntaxes.json").read_text(encoding="utf-8"),
)
CALLS, THOUGHTS = RECORDED["tool_calls"], RECORDED["thoughts"]
READABLE_CALLS = [name for name, sample in CALLS.items() if sample["readers"]]
READABLE_THOUGHTS = [name for name, sample in THOUGHTS.items() if sample["readers"]]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_recognised_by_the_row_of_its_syntax(name: str):
    syntax = recognise(CALLS[name]["text"], TOOL_CALL_SYNTAXES)
    assert (syntax and syntax.name) == CALLS[name]["syntax"]


@pytest.mark.parametrize("name", READABLE_CALLS)
def test_every_parser_named_for_a_call_was_seen_to_read_it(name: str):
    syntax = recognise(CALLS[name]["text"], TOOL_CALL_SYNTAXES)
    assert syntax is not None
    assert set(syntax.parsers) <= set(CALLS[name]["readers"])


@pytest.mark.parametrize("name", THOUGHTS)
def test_a_thought_is_recognised_by_the_row_of_its_syntax(name: str):
    syntax = recognise(THOUGHTS[name]["text"], THOUGHT_SYNTAXES)
    assert syntax is not None
    assert syntax.name == THOUGHTS[name]["syntax"]


@pytest.mark.parametrize("name", READABLE_THOUGHTS)
def test_every_parser_named_for_a_thought_was_seen_to_read_it(name: str):
    syntax = recognise(THOUGHTS[name]["text"], THOUGHT_SYNTAXES)
    assert syntax is not None
    assert set(syntax.parsers) <= set(THOUGHTS[name]["readers"])


def test_every_row_of_either_table_has_a_sample():
    assert {syntax.name for syntax in TOOL_CALL_SYNTAXES} == {sample["syntax"] for sample in CALLS.values()} - {None}
    assert {syntax.name for syntax in THOUGHT_SYNTAXES} == {sample["syntax"] for sample in THOUGHTS.values()}


def test_every_partner_reads_the_thought_tags_that_it_is_named_for():
    assert set(REASONING_PARTNERS.values()) <= set(THOUGHTS["think"]["readers"])


def test_the_parsers_said_to_share_a_marker_read_a_call_that_begins_with_it():
    marked = [sample for sample in CALLS.values() if sample["text"].startswith("<tool_call>")]
    assert set(SHARED_MARKER_PARSERS) <= {reader for sample in marked for reader in sample["readers"]}


PROSE = [
    "I would call get_weather for Zurich, but I cannot.",
    'The function "get_weather" takes a city, such as "Zurich".',
    "In Python you would write result = get_weather(city='Zurich').",
    "It is [sunny] in Zurich, see (the forecast).",
    'A JSON object looks like {"city": "Zurich"}.',
    "Use commentary sparingly; functions are listed below.",
    "51",
    "",
]


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_no_call_and_no_thought(text: str):
    assert recognise(text, TOOL_CALL_SYNTAXES) is None
    assert recognise(text, THOUGHT_SYNTAXES) is None
    assert not holds_unknown_call(text, "get_weather", "city")


@pytest.mark.parametrize(
    "text",
    [
        CALLS["arguments_alone"]["text"],
        CALLS["invoke_of_no_parser"]["text"],
        'get_weather\n{"city": "Zurich"}',
        '{"tool": "get_weather", "input": {"city": "Zurich"}}',
        "<call:function=get_weather>",
    ],
)
def test_a_call_in_no_known_syntax_is_still_seen_to_be_one(text: str):
    assert recognise(text, TOOL_CALL_SYNTAXES) is None
    assert holds_unknown_call(text, "get_weather", "city")
