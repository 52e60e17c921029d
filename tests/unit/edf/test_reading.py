"""Reading an EDF with what it inherits."""

from pathlib import Path

import pytest

from entrypoint.edf.reading import LEVELS, read_edf
from entrypoint.edf.surroundings import Surroundings


def rules(path: Path, surroundings: Surroundings) -> list[str]:
    return [finding.rule for finding in read_edf(path, surroundings).findings]


def test_dotted_annotations_and_tables_of_them_are_the_same(tmp_path: Path, surroundings: Surroundings):
    for text in ('[annotations]\ncom.hooks.x.enabled = "true"', '[annotations.com.hooks.x]\nenabled = "true"'):
        (tmp_path / "a.toml").write_text(text)
        assert read_edf(tmp_path / "a.toml", surroundings).edf.annotations == {"com.hooks.x.enabled": "true"}


def test_what_is_inherited_is_added_to_and_overridden(tmp_path: Path, surroundings: Surroundings):
    (tmp_path / "base.toml").write_text(
        'image = "a"\nmounts = ["/a:/a"]\n[env]\nA = "1"\nB = "1"\n[annotations]\nx.y = "1"'
    )
    (tmp_path / "more.toml").write_text('image = "b"\nwritable = false\n[env]\nC = "2"')
    (tmp_path / "own.toml").write_text(
        'base_environment = ["base", "more"]\nmounts = ["/b:/b"]\n[env]\nB = "3"\n[annotations]\nx.z = "2"'
    )
    read = read_edf(tmp_path / "own.toml", surroundings)
    assert read.findings == ()
    assert (read.edf.image, read.edf.writable, read.edf.mounts) == ("b", False, ("/a:/a", "/b:/b"))
    assert read.edf.env == {"A": "1", "B": "3", "C": "2"}
    assert read.edf.annotations == {"x.y": "1", "x.z": "2"}


def test_a_false_of_ones_own_beats_a_true_that_is_inherited(tmp_path: Path, surroundings: Surroundings):
    (tmp_path / "base.toml").write_text("entrypoint = true")
    (tmp_path / "own.toml").write_text('base_environment = "base"\nentrypoint = false')
    assert read_edf(tmp_path / "own.toml", surroundings).edf.entrypoint is False


def test_a_base_is_found_by_path_by_the_callers_directory_and_by_name(tmp_path: Path, surroundings: Surroundings):
    (tmp_path / "base.toml").write_text('image = "a"')
    for word in (str(tmp_path / "base.toml"), "./base.toml", "base"):
        (tmp_path / "own.toml").write_text(f'base_environment = "{word}"')
        read = read_edf(tmp_path / "own.toml", surroundings)
        assert (read.edf.image, read.findings) == ("a", ())


def test_names_are_looked_up_in_the_home_directory_by_default(tmp_path: Path):
    (tmp_path / ".edf").mkdir()
    (tmp_path / ".edf" / "mine.toml").write_text("")
    here = Surroundings({}, cwd=tmp_path, home=tmp_path)
    assert here.locate("mine") == tmp_path / ".edf" / "mine.toml"
    assert Surroundings({"EDF_PATH": "/nowhere"}, cwd=tmp_path, home=tmp_path).locate("mine") is None


def test_a_base_that_is_not_there_is_found(tmp_path: Path, surroundings: Surroundings):
    (tmp_path / "own.toml").write_text('base_environment = "none"')
    (finding,) = read_edf(tmp_path / "own.toml", surroundings).findings
    assert finding.rule == "edf-base-missing"
    assert "'none'" in finding.message
    assert str(tmp_path) in finding.remedy


def test_an_edf_that_inherits_from_itself_is_found(tmp_path: Path, surroundings: Surroundings):
    (tmp_path / "a.toml").write_text('base_environment = "b"')
    (tmp_path / "b.toml").write_text('base_environment = "a"')
    assert rules(tmp_path / "a.toml", surroundings) == ["edf-base-cycle"]


@pytest.mark.parametrize(("levels", "found"), [(LEVELS, []), (LEVELS + 1, ["edf-base-depth"])])
def test_ten_levels_of_inheritance_are_followed(
    tmp_path: Path, surroundings: Surroundings, levels: int, found: list[str]
):
    for level in range(levels):
        (tmp_path / f"l{level}.toml").write_text(f'base_environment = "l{level + 1}"')
    (tmp_path / f"l{levels}.toml").write_text("")
    assert rules(tmp_path / "l0.toml", surroundings) == found


def test_one_base_that_two_others_share_is_no_cycle(tmp_path: Path, surroundings: Surroundings):
    (tmp_path / "base.toml").write_text('image = "a"')
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text('base_environment = "base"')
    (tmp_path / "own.toml").write_text('base_environment = ["a", "b"]')
    assert rules(tmp_path / "own.toml", surroundings) == []


def test_what_is_wrong_in_a_base_is_told_with_its_file(tmp_path: Path, surroundings: Surroundings):
    (tmp_path / "base.toml").write_text('imagee = "a"')
    (tmp_path / "own.toml").write_text('base_environment = "base"')
    (finding,) = read_edf(tmp_path / "own.toml", surroundings).findings
    assert finding.message == "In base.toml, which it inherits: There is no key 'imagee' in an EDF."
    assert finding.remedy == "Did you mean image?"
