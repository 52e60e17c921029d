"""The reference: complete, in words, and the page in docs is the generated one."""

import subprocess
import sys
from pathlib import Path

import pytest

from entrypoint.settings import catalogue
from entrypoint.settings.origin import dotted
from entrypoint.settings.reference import render

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_in_docs_is_up_to_date():
    assert PAGE.read_text() == render(), "run python -m entrypoint.settings.reference > docs/settings.md"


def test_every_setting_has_one_row_with_a_sentence():
    rows = [line.split(" | ") for line in render().splitlines() if line.startswith("| `")]
    assert [row[0].strip("| `") for row in rows] == [dotted(path) for path in catalogue.fields()]
    for row in rows:
        assert row[3].rstrip(" |").endswith("."), row[0]


@pytest.mark.parametrize(
    "row",
    [
        "| `engine.port` | a whole number from 1 to 65535 | `30000` | Port on which clients reach the engine. |",
        "| `drain.timeout_s` | a number above 0, in seconds | `25` |",
        "| `watch.memory_floor_gib` | a number above 0, in GiB | `8` |",
        "| `logs.max_bytes` | a whole number of at least 65536, in bytes | `268435456` |",
        "| `model.path` | text | none |",
        "| `engine.enable_metrics` | true or false | `true` |",
        "| `engine.args` | a table | empty |",
        "| `engine.access` | 'key' or 'open' | `'key'` |",
        "| `model.context_length` | a whole number above 0 or '' (left out) | none |",
    ],
)
def test_types_and_defaults_are_said_in_words(row: str):
    assert row in render()


def test_the_module_prints_the_page():
    done = subprocess.run(
        [sys.executable, "-m", "entrypoint.settings.reference"], capture_output=True, text=True, check=True
    )
    assert done.stdout == render()
