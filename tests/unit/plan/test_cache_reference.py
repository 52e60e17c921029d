"""The page about caches is generated from the rules."""

from pathlib import Path

from entrypoint.plan.cache_reference import render
from entrypoint.plan.caches import CACHE_RULES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "caches.md"


def test_the_page_in_docs_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == render()


def test_every_variable_has_a_row():
    assert all(f"| `{rule.variable}` | {rule.layer} |" in render() for rule in CACHE_RULES)
