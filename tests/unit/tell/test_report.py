"""The report: verdict first, in words and as data."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from entrypoint.settings.redaction import Masker
from entrypoint.tell.board import Phase
from entrypoint.tell.report import Report, write

REPORT = Report(
    code=71,
    summary="The engine was killed for memory while loading.",
    remedy="Lower engine.mem_fraction_static.",
    evidence=("oom-kill: constraint",),
    phase="loading",
    phases=(Phase("starting", 0.0, 12.34), Phase("loading", 3661.0)),
    notes=("Two requests were lost.", "The log is cut."),
    status={"state": "failed", "command": ["python", "s3cret-key"]},
    log_tail=("line 1", "line 2 s3cret-key"),
    log_path=Path("/logs/server-0.log"),
)


def test_the_page_says_what_happened_then_what_to_do_then_the_evidence():
    assert (
        REPORT.markdown()
        == """\
# The engine was killed for memory while loading.

Exit code 71.

**What to do:** Lower engine.mem_fraction_static.

- Two requests were lost.
- The log is cut.

## Evidence

```text
oom-kill: constraint
```

## Phases

| phase | began (UTC) | lasted |
| --- | --- | --- |
| starting | 00:00:00 | 12.3 s |
| loading | 01:01:01 |  |

## The engine's last lines

All of them are in `/logs/server-0.log`.

```text
line 1
line 2 s3cret-key
```
"""
    )


def test_a_page_without_remedy_notes_evidence_and_log_is_short():
    page = replace(REPORT, remedy="", notes=(), evidence=(), log_tail=()).markdown()
    assert "What to do" not in page
    assert "Evidence" not in page
    assert "last lines" not in page
    assert page.startswith("# The engine was killed")


@pytest.mark.parametrize("line", ["```", "````text", "x ```` y", "~~~"])
def test_a_log_line_cannot_end_the_block_that_it_stands_in(line: str):
    page = replace(REPORT, evidence=(line, "after"), log_tail=(line, "after")).markdown()
    fences = [text for text in page.splitlines() if text.lstrip().startswith("```")]
    assert fences == ["```text", "```", "```text", "```"]


def test_data_are_the_same_for_programs():
    assert REPORT.data() == {
        "code": 71,
        "summary": REPORT.summary,
        "remedy": REPORT.remedy,
        "evidence": ["oom-kill: constraint"],
        "phase": "loading",
        "notes": ["Two requests were lost.", "The log is cut."],
        "status": {"state": "failed", "command": ["python", "s3cret-key"]},
        "log_tail": ["line 1", "line 2 s3cret-key"],
        "log_path": "/logs/server-0.log",
    }


def test_both_forms_are_written_privately_and_without_secrets(tmp_path: Path):
    write(REPORT, tmp_path, 3, Masker(["s3cret-key"]))
    page, data = tmp_path / "report-3.md", tmp_path / "report-3.json"
    assert sorted(tmp_path.iterdir()) == [data, page]
    for path in (page, data):
        assert path.stat().st_mode & 0o777 == 0o600
        assert "s3cret-key" not in path.read_text()
        assert "***" in path.read_text()
    assert json.loads(data.read_text())["code"] == 71


def test_lines_with_broken_characters_can_be_written(tmp_path: Path):
    write(replace(REPORT, log_tail=("broken \udcff",)), tmp_path, 0, Masker())
    assert "broken" in (tmp_path / "report-0.md").read_text()
    assert json.loads((tmp_path / "report-0.json").read_text())["code"] == 71


def test_a_directory_that_is_gone_is_an_error(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        write(REPORT, tmp_path / "gone", 0, Masker())
