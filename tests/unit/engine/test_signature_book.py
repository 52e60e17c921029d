"""The book of signatures: packaged rows, a user's rows, and what can be wrong with them."""

import re
from pathlib import Path

import pytest

from entrypoint.cause import Cause
from entrypoint.engine.signature import Role
from entrypoint.engine.signature_book import packaged_signatures, read_signatures, signatures_with
from entrypoint.outcome import ExitCode, SuperviseError

ROW = """
[[signature]]
id = "site.license"
pattern = '^LicenseError: (?P<why>.+)'
literals = ["LicenseError: "]
role = "root"
cause = "configuration"
because = "The license server refused: {why}."
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "rows.toml"
    path.write_text(text)
    return path


def refusal(path: Path) -> SuperviseError:
    with pytest.raises(SuperviseError) as caught:
        read_signatures(path)
    assert caught.value.code is ExitCode.CONFIGURATION
    assert str(path) in caught.value.message
    return caught.value


def test_packaged_rows_are_read_once():
    assert packaged_signatures() is packaged_signatures()
    assert len(packaged_signatures()) > 150


def test_a_users_row_needs_no_source(tmp_path: Path):
    (row,) = read_signatures(written(tmp_path, ROW))

    assert (row.id, row.role, row.cause, row.literals) == (
        "site.license",
        Role.ROOT,
        Cause.CONFIGURATION,
        ("LicenseError: ",),
    )
    assert row.pattern.search("LicenseError: none left")
    assert (row.remedy, row.source, row.versions) == ("", "", "")


def test_a_users_rows_come_behind_the_packaged_ones(tmp_path: Path):
    rows = signatures_with([written(tmp_path, ROW)])

    assert rows[:-1] == packaged_signatures()
    assert rows[-1].id == "site.license"


def test_a_users_row_takes_the_place_of_a_packaged_one(tmp_path: Path):
    packaged = packaged_signatures()

    rows = signatures_with([written(tmp_path, ROW.replace("site.license", packaged[0].id))])

    assert [row.id for row in rows] == [row.id for row in packaged]
    assert rows[0].because == "The license server refused: {why}."


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("because", "becaus", r"row 1 \(site\.license\): because is missing"),
        ("because", "becaus", r"becaus is unknown; did you mean because\?"),
        ("role =", "zzz = 1\nrole =", r"zzz is unknown$"),
        ("(?P<why>.+)", "(?P<why>.+", r"pattern: no regular expression: missing \)"),
        ("^LicenseError: (?P<why>.+)", "x*", r"pattern: it matches an empty line"),
        ('["LicenseError: "]', "[]", r"literals: at least one text is needed"),
        ('["LicenseError: "]', '["abc"]', r"literals: 'abc' is shorter than 4 characters"),
        ('["LicenseError: "]', '["abc\\nabc"]', r"literals: .* spans lines"),
        ('["LicenseError: "]', '"LicenseError"', r"literals: input should be a valid tuple"),
        ('"root"', '"rot"', r"role: input should be 'root', 'cascade', 'confirmation' or 'benign'"),
        ('"configuration"', '"settings"', r"cause: input should be 'configuration', "),
        ('"site.license"', '"License"', r"row 1 \(License\): id: string should match pattern"),
        ("[[signature]]", "[[signatures]]", r"'signatures' is unknown; rows are written as \[\[signature\]\]"),
        ("[[signature]]", "[signature]", r"with two brackets"),
        ("[[signature]]", "[[signature]", r"not usable TOML: .*line 2"),
    ],
)
def test_what_is_wrong_with_a_row_is_named(tmp_path: Path, old: str, new: str, says: str):
    error = refusal(written(tmp_path, ROW.replace(old, new)))

    assert re.search(says, error.message)


def test_an_id_twice_in_one_file_is_a_mistake(tmp_path: Path):
    assert "row 2 has the id 'site.license' of an earlier row" in refusal(written(tmp_path, ROW + ROW)).message


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    assert "No such file" in refusal(tmp_path / "none.toml").message


def test_a_file_of_other_bytes_is_refused(tmp_path: Path):
    path = tmp_path / "rows.toml"
    path.write_bytes(b"\xff\xfe")

    assert "not usable TOML" in refusal(path).message


def test_a_log_in_place_of_the_rows_is_refused(tmp_path: Path):
    assert "larger than 1 MiB" in refusal(written(tmp_path, "#" * (1 << 20) + "\n")).message


def test_an_empty_file_adds_nothing(tmp_path: Path):
    assert read_signatures(written(tmp_path, "\ufeff# nothing yet\n")) == ()


def test_the_row_that_the_documents_show_is_a_row(tmp_path: Path):
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    rows = page[page.index("```toml\n[[signature]]") + len("```toml\n") :].partition("```")[0]
    path = tmp_path / "own.toml"
    path.write_text(rows)
    (row,) = read_signatures(path)
    assert row.pattern.search("OSError: [Errno 19] /capstor/scratch/x is not mounted")
