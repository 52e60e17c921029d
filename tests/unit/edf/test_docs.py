"""The page on EDFs names every rule, and no other."""

import re
from pathlib import Path

from entrypoint.site.reading import read_site

ROOT = Path(__file__).parents[3]


def test_the_page_names_every_rule_and_no_other():
    code = "".join(path.read_text() for path in (ROOT / "entrypoint" / "edf").glob("*.py"))
    page = (ROOT / "docs" / "edf.md").read_text()
    assert set(re.findall(r"`(edf-[a-z-]+)`", page)) == set(re.findall(r'"(edf-[a-z-]+)"', code))


def test_the_site_on_the_page_can_be_read(tmp_path: Path):
    (toml,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "edf.md").read_text(), re.DOTALL)
    (tmp_path / "own.toml").write_text(toml)
    assert read_site(str(tmp_path / "own.toml")).slurm.partition == "gpu"
