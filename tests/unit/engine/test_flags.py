import argparse
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.engine.flags import FALLBACK_ALIASES, Ambiguous, Flag, FlagKind, FlagTable, destinations_without_table

RECORDED = Path(__file__).parents[2] / "data" / "engine" / "flags-0.5.23.json"


@pytest.fixture(scope="module")
def table():
    return FlagTable.from_json(RECORDED.read_bytes())


def small_table(*flags: Flag):
    return FlagTable("1.0", flags)


def test_a_recorded_table_of_the_engine_is_read_whole(table: FlagTable):
    assert table.version == "0.5.23"
    assert len(table.flags) == 543
    assert table.find("--tool-call-parser").choices[0] == "auto"


def test_a_table_survives_being_written_and_read(table: FlagTable):
    assert FlagTable.from_json(table.to_json()) == table


def test_a_written_table_names_its_schema(table: FlagTable):
    assert json.loads(table.to_json())["schema_version"] == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Invalid JSON"),
        ("[]", "should be an object"),
        ('{"schema_version": 2, "version": "1", "flags": []}', "schema_version: Input should be 1"),
        ('{"version": "1", "flags": []}', "schema_version: Field required"),
        ('{"schema_version": 1, "version": "1", "flags": [{"dest": "x"}]}', "flags.0.spellings"),
        ('{"schema_version": 1, "version": "1", "flags": [], "more": 1}', "more"),
    ],
)
def test_a_text_that_is_no_table_says_why(text: str, reason: str):
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        FlagTable.from_json(text)
    assert "\n" not in str(caught.value)


def test_a_full_spelling_is_found_although_longer_flags_begin_with_it(table: FlagTable):
    assert table.find("--model").dest == "model_path"


def test_a_prefix_of_a_single_flag_is_that_flag(table: FlagTable):
    assert table.find("--tp").dest == "tp_size"


def test_a_prefix_of_several_flags_is_ambiguous(table: FlagTable):
    assert table.find("--pp") == Ambiguous(("--pp-size", "--pp-max-micro-batch-size", "--pp-async-batch-depth"))


def test_a_prefix_of_two_spellings_of_one_flag_is_ambiguous_too_as_argparse_has_it():
    table = small_table(Flag(("--cache-a", "--cache-b"), "cache", FlagKind.ONE))
    assert isinstance(table.find("--cache"), Ambiguous)


def test_an_attached_value_does_not_hide_the_flag(table: FlagTable):
    assert table.find("--tp-size=4").dest == "tp_size"
    assert table.find("--tp=4").dest == "tp_size"


@pytest.mark.parametrize("word", ["--max-context-length", "--", "-", "", "-tp", "tp-size", "--tp-size "])
def test_what_names_no_flag_is_not_found(table: FlagTable, word: str):
    assert table.find(word) is None


def test_destinations_say_what_is_meant_whatever_the_spelling(table: FlagTable):
    meanings = [
        table.destinations(argv)
        for argv in (["--tp-size", "4"], ["--tensor-parallel-size", "4"], ["--tp", "4"], ["--tensor-parallel-size=4"])
    ]
    assert meanings == [{"tp_size": ("4",)}] * 4


def test_an_alias_of_a_bare_flag_stores_true_under_its_destination(table: FlagTable):
    assert table.destinations(["--enable-hicache"]) == {"enable_hierarchical_cache": ("true",)}


def test_the_negation_of_a_flag_stores_false(table: FlagTable):
    negative = next(flag for flag in table.flags if flag.constant == "false")
    assert table.destinations([negative.spellings[0]]) == {negative.dest: ("false",)}


def test_a_flag_that_became_a_constant_stores_it_instead_of_its_value(table: FlagTable):
    assert table.destinations(["--monokernel-backend", "amd"]) == {"enable_amd_monokernel": ("true",)}


def test_the_last_use_wins(table: FlagTable):
    assert table.destinations(["--port", "1", "--host", "h", "--port=2"]) == {"port": ("2",), "host": ("h",)}


def test_a_negative_number_is_a_value(table: FlagTable):
    assert table.destinations(["--chunked-prefill-size", "-1"]) == {"chunked_prefill_size": ("-1",)}


def test_a_json_object_is_a_value(table: FlagTable):
    assert table.destinations(["--mm-process-config", '{"image": {"max": -1}}']) == {
        "mm_process_config": ('{"image": {"max": -1}}',)
    }


def test_several_values_end_at_the_next_flag(table: FlagTable):
    assert table.destinations(["--log-requests-target", "stdout", "/logs", "--port", "1"]) == {
        "log_requests_target": ("stdout", "/logs"),
        "port": ("1",),
    }


def test_any_number_of_values_may_be_none(table: FlagTable):
    assert table.destinations(["--lora-paths", "--port", "1"]) == {"lora_paths": (), "port": ("1",)}


def test_a_flag_without_its_value_stores_nothing(table: FlagTable):
    assert table.destinations(["--port", "--host", "h"]) == {"host": ("h",)}


def test_unknown_and_ambiguous_flags_store_nothing_and_swallow_their_words(table: FlagTable):
    assert table.destinations(["--nonsense", "1", "--pp", "2", "--port", "3"]) == {"port": ("3",)}


def test_a_retired_flag_stores_nothing():
    retired = Flag(("--gone",), "gone", FlagKind.BARE, constant="true", retired=True)
    assert small_table(retired).destinations(["--gone"]) == {}


def test_an_optional_value_falls_back_to_its_constant():
    table = small_table(Flag(("--check",), "check", FlagKind.OPTIONAL, constant="all"))
    assert table.destinations(["--check"]) == {"check": ("all",)}
    assert table.destinations(["--check", "some"]) == {"check": ("some",)}


def test_a_double_dash_makes_values_of_all_that_follows(table: FlagTable):
    assert table.destinations(["--served-model-name", "--", "--odd"]) == {"served_model_name": ("--odd",)}


def test_a_configuration_file_is_a_flag_like_any_other(table: FlagTable):
    assert table.destinations(["--config", "a.yaml"]) == {"config": ("a.yaml",)}


SAMPLE = (
    Flag(("--tp-size", "--tensor-parallel-size"), "tp_size", FlagKind.ONE),
    Flag(("--pp-size",), "pp_size", FlagKind.ONE),
    Flag(("--pp-depth",), "pp_depth", FlagKind.ONE),
    Flag(("--targets",), "targets", FlagKind.SEVERAL),
    Flag(("--paths",), "paths", FlagKind.ANY),
    Flag(("--sum",), "sum", FlagKind.OPTIONAL),
    Flag(("--enable-hicache", "--enable-hierarchical-cache"), "hicache", FlagKind.BARE, constant="true"),
    Flag(("--no-radix",), "radix", FlagKind.BARE, constant="false"),
)
NARGS = {FlagKind.SEVERAL: "+", FlagKind.ANY: "*", FlagKind.OPTIONAL: "?", FlagKind.ONE: None}
WORDS = [
    *("--tp-size", "--tp", "--t", "--tensor-parallel-size=8", "--pp-size", "--pp-d", "--targets", "--paths", "--sum"),
    *("--paths=x", "--enable-hi", "--enable-hicache", "--no-radix", "--sum=y", "--tp=", "--no-radi"),
    *("a", "-1", "-.5", "b c", "-x y", "{}", '{"a": -1}', "", "-", "4"),
]


def argparse_destinations(argv: list[str]):
    """What Python's own parser makes of a command line, or None where it refuses it."""
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False, argument_default=argparse.SUPPRESS)
    for flag in SAMPLE:
        if flag.kind is FlagKind.BARE:
            parser.add_argument(*flag.spellings, dest=flag.dest, action="store_const", const=flag.constant)
        else:
            parser.add_argument(*flag.spellings, dest=flag.dest, nargs=NARGS[flag.kind])
    try:
        parsed, strays = parser.parse_known_args(argv)
    except (argparse.ArgumentError, SystemExit):
        return None
    if strays:
        return None
    return {
        dest: () if value is None else tuple(value) if isinstance(value, list) else (value,)
        for dest, value in vars(parsed).items()
    }


@given(st.lists(st.sampled_from(WORDS), max_size=8))
def test_whatever_argparse_accepts_means_the_same_here(argv: list[str]):
    expected = argparse_destinations(argv)
    if expected is not None:
        assert small_table(*SAMPLE).destinations(argv) == expected


@given(st.lists(st.sampled_from(WORDS), max_size=8))
def test_a_command_line_without_strays_or_gaps_is_one_that_argparse_accepts(argv: list[str]):
    uses = small_table(*SAMPLE).uses(argv)
    clean = all(isinstance(use.found, Flag) and not use.strays and not use.lacks_a_value for use in uses)
    attached_to_bare = any(use.attached is not None and use.found.kind is FlagKind.BARE for use in uses if clean)
    assert (argparse_destinations(argv) is not None) == (clean and not attached_to_bare)


def test_without_a_table_the_flags_that_rules_look_at_are_known_by_all_names():
    assert destinations_without_table(
        ["--tensor-parallel-size", "4", "--pp-size=2", "--enable-hicache", "--model", "/m", "--trust-remote-code"]
    ) == {
        "tp_size": ("4",),
        "pp_size": ("2",),
        "enable_hierarchical_cache": ("true",),
        "model_path": ("/m",),
        "trust_remote_code": ("true",),
    }


def test_without_a_table_other_flags_are_passed_over_with_their_words():
    assert destinations_without_table(["--strange", "--port", "1", "--odd", "x"]) == {"port": ("1",)}


def test_the_flags_known_without_a_table_are_those_of_the_engine(table: FlagTable):
    argv = ["--tp", "4", "--dp-size", "2", "--enable-hicache", "--device", "cpu", "--model", "m", "--ep", "2"]
    assert destinations_without_table(argv) == table.destinations(argv)


def test_every_spelling_known_without_a_table_sets_the_same_in_the_engine(table: FlagTable):
    assert {spelling: table.find(spelling).dest for spelling in FALLBACK_ALIASES} == dict(FALLBACK_ALIASES)
