"""The packaged signatures: what each matches, and what it must not."""

import re
import tomllib
from pathlib import Path

import pytest

from entrypoint.cli.parse import COMMANDS
from entrypoint.engine.signature import Role, Signature
from entrypoint.engine.signature_book import packaged_signatures
from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.settings import catalogue
from entrypoint.settings.origin import dotted

DATA = Path(__file__).parents[2] / "data"
TEXTS = tomllib.loads((DATA / "signatures.toml").read_text())
SIGNATURES = {signature.id: signature for signature in packaged_signatures()}
INDEX = SignatureIndex(packaged_signatures())
MATCHES = [(name, text) for name, texts in TEXTS.items() for text in texts["match"]]
NEAR_MISSES = [(name, text) for name, texts in TEXTS.items() for text in texts["near"]]


def borne_by(line: str) -> set[str]:
    return {match.signature.id for match in INDEX.matches(line.encode() + b"\n")}


def test_every_signature_has_texts_that_match_and_near_misses():
    assert list(TEXTS) == list(SIGNATURES)
    assert [name for name, texts in TEXTS.items() if not (texts["match"] and texts["near"])] == []


@pytest.mark.parametrize(("name", "text"), MATCHES)
def test_a_text_bears_its_signature_and_no_other(name: str, text: str):
    assert borne_by(text) == {name, *TEXTS[name].get("also", {}).get(text, ())}


@pytest.mark.parametrize(("name", "text"), MATCHES)
@pytest.mark.parametrize("label", ["0: ", " 3: ", "\x1b[31m"])
def test_labels_and_colours_hide_no_signature(name: str, text: str, label: str):
    assert name in borne_by(label + text)


@pytest.mark.parametrize(("name", "text"), NEAR_MISSES)
def test_a_near_miss_does_not_bear_the_signature(name: str, text: str):
    assert name not in borne_by(text)


@pytest.mark.parametrize(("name", "text"), MATCHES)
@pytest.mark.parametrize(
    "line",
    [
        "[2026-10-20 10:00:12 TP0] Receive: obj=GenerateReqInput(rid='a', text={!r}, stream=True)",
        "[2026-10-20 10:00:12] Finish: out={{'text': {!r}}}",
    ],
)
def test_a_users_text_in_a_request_line_bears_nothing(name: str, text: str, line: str):
    assert name in SIGNATURES
    assert borne_by(line.format(text)) == set()


@pytest.mark.parametrize("signature", packaged_signatures(), ids=lambda signature: signature.id)
def test_every_signature_says_why_and_what_to_do_in_sentences(signature: Signature):
    assert signature.because.endswith(".")
    assert signature.remedy.endswith((".", "{why}"))
    assert signature.source
    assert signature.versions


def test_a_remedy_names_only_settings_and_commands_that_there_are():
    remedies = " ".join(signature.remedy for signature in packaged_signatures())
    settings = {dotted(path) for path in catalogue.fields()}
    sections = "|".join(catalogue.sections())

    assert set(re.findall(rf"(?<![-/.\w])(?:{sections})\.[a-z_]+\b(?!\.\w)", remedies)) <= settings
    assert set(re.findall(r"supervise (?!--)([a-z]+)", remedies)) <= set(COMMANDS)


@pytest.mark.parametrize(("name", "text"), MATCHES)
def test_the_fields_that_sentences_name_are_in_every_line(name: str, text: str):
    (fields,) = [match.fields for match in INDEX.matches(text.encode() + b"\n") if match.signature.id == name]

    for sentence in (SIGNATURES[name].because, SIGNATURES[name].remedy):
        sentence.format_map(fields)


def test_an_exit_code_of_minus_nine_alone_confirms_no_want_of_memory():
    for line in (
        "RuntimeError: Rank 2 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL)",
        "[2026-10-20 11:00:00] Subprocess scheduler_0 (pid=8123) crashed with exit code -9. Triggering SIGQUIT",
        "srun: error: nid002: task 1: Killed",
        "Killed",
    ):
        roles = {SIGNATURES[name].role for name in borne_by(line)}
        assert Role.CONFIRMATION not in roles
        assert Role.ROOT not in roles


def test_a_recorded_healthy_life_bears_nothing_that_could_end_it():
    recorded = (DATA / "engine" / "start-0.5.23-cpu.log").read_bytes()

    found = {match.signature.id: match.signature.role for match in INDEX.matches(recorded)}

    assert {name for name, role in found.items() if role is not Role.BENIGN} == set()
    assert {"exit.sigterm", "image.ignored_import", "limit.nofile_kept"} <= found.keys()
