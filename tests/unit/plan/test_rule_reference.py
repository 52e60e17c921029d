"""The reference of rules: it is the one that the rows give, and it knows every finding that there is."""

import re
from pathlib import Path

from entrypoint.plan.rules.reference import anchor, every_rule, render

ROOT = Path(__file__).resolve().parents[3]
MADE = re.compile(r'(?:Finding\(|rule=)\s*"(?P<rule>[a-z]+(?:-[a-z]+)*)"')


def test_the_page_is_the_one_that_the_rows_give():
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == render()


def test_every_link_of_the_tables_has_its_heading():
    page = render()
    headings = {anchor(name) for name in re.findall(r"^### `(.*)`$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(.*?)\)", page)) == headings


def test_every_finding_that_the_code_makes_has_a_row():
    named = {rule.name for rule in every_rule()}
    found = {
        match["rule"]: path.name
        for path in (ROOT / "entrypoint").rglob("*.py")
        if "edf" not in path.parts  # what is said of an EDF is said by its own command
        for match in MADE.finditer(path.read_text(encoding="utf-8"))
    }
    assert found.keys() - named == set(), found
