from pathlib import Path

import pytest

from entrypoint.engine.log import FactKind, LogFact, LogScanner
from entrypoint.run.numbers import SIGNS, EngineNumbers
from entrypoint.run.states import Happening

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "start-0.5.23-cpu.log"


def fact(kind: FactKind, **fields: str) -> LogFact:
    return LogFact(kind, fields, "the line")


def noted(*facts: LogFact) -> EngineNumbers:
    numbers = EngineNumbers()
    for one in facts:
        numbers.note(one)
    return numbers


def test_resolved_arguments_are_kept_and_those_without_a_value_are_not():
    arguments = fact(
        FactKind.SERVER_ARGUMENTS,
        attention_backend="aiter",
        reasoning_parser="qwen3",
        tool_call_parser="None",
        context_length="",
        port="30000",
    )
    assert noted(arguments).values == {"attention_backend": "aiter", "reasoning_parser": "qwen3"}


def test_the_engine_has_the_last_word_on_its_attention_backend():
    numbers = noted(
        fact(FactKind.SERVER_ARGUMENTS, attention_backend="aiter"),
        fact(FactKind.BACKEND_DEFAULT, attention_backend="triton"),
    )
    assert numbers.values["attention_backend"] == "triton"


def test_the_size_of_the_pool_is_a_number_of_tokens():
    assert noted(fact(FactKind.POOL_TOKENS, tokens="425984")).values == {"pool_tokens": 425984}


def test_available_memory_is_what_was_printed_last():
    numbers = noted(fact(FactKind.LOAD_BEGIN, available_gb="120.5"), fact(FactKind.LOAD_END, available_gb="60.25"))
    assert numbers.values["available_memory_gb"] == 60.25


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (fact(FactKind.LOAD_PROGRESS, done="3", total="9", percent="33", bar="b"), "3 of 9 shards loaded"),
        (fact(FactKind.LOAD_END), "weights loaded"),
        (fact(FactKind.CAPTURE_PROGRESS, percent="40", bar="b"), "40 % of the graphs captured"),
        (fact(FactKind.JIT_BUILD_BEGIN, module="module_moe"), "building module_moe"),
        (fact(FactKind.JIT_BUILD_END, module="module_moe", seconds="12"), "built module_moe"),
    ],
)
def test_progress_is_told_in_words(said: LogFact, words: str):
    assert noted(said).progress == words


def test_progress_is_what_was_not_known_before():
    numbers = EngineNumbers()
    assert numbers.note(fact(FactKind.LOAD_PROGRESS, done="3", total="9"))
    assert numbers.note(fact(FactKind.LOAD_PROGRESS, done="4", total="9"))


def test_a_bar_that_is_drawn_again_as_it_was_is_no_progress():
    numbers = noted(fact(FactKind.LOAD_PROGRESS, done="3", total="9"))
    assert not numbers.note(fact(FactKind.LOAD_PROGRESS, done="3", total="9"))


@pytest.mark.parametrize("kind", [FactKind.LOAD_BEGIN, FactKind.CAPTURE_END, FactKind.HTTP_UP, FactKind.FIRED_UP])
def test_a_step_of_the_engine_is_progress_whenever_it_comes(kind: FactKind):
    numbers = noted(fact(kind))
    assert numbers.note(fact(kind))


@pytest.mark.parametrize("kind", [FactKind.EXCEPTION, FactKind.DRAINING, FactKind.SIGTERM_SEEN])
def test_bad_news_is_no_progress(kind: FactKind):
    assert not EngineNumbers().note(fact(kind, remaining="3"))


def test_signs_stand_for_the_phases_that_they_begin():
    assert SIGNS[FactKind.LOAD_PROGRESS] is Happening.LOAD_SEEN
    assert SIGNS[FactKind.CAPTURE_BEGIN] is Happening.CAPTURE_SEEN
    assert SIGNS[FactKind.HTTP_UP] is Happening.PORT_OPEN


def test_that_the_engine_calls_itself_ready_is_no_sign_but_a_reason_to_look():
    assert FactKind.FIRED_UP not in SIGNS


def test_the_log_of_a_real_start_is_understood():
    facts = LogScanner().scan(RECORDED.read_bytes())
    numbers = noted(*facts)
    assert numbers.values["pool_tokens"] > 0
    assert numbers.values["available_memory_gb"] > 0
    assert numbers.values["attention_backend"]
    assert {SIGNS[one.kind] for one in facts if one.kind in SIGNS} >= {Happening.LOAD_SEEN, Happening.PORT_OPEN}
