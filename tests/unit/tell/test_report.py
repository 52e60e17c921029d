"""The report: verdict first, in words and as data, without secrets, whatever the log holds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from report_samples import GIB, HOSTILE, LOG_LINES, MEMORY, REPORT, ROOT_LINE, ROOT_NUMBER, TAIL, points

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.outcome import ExitCode
from entrypoint.settings.redaction import Masker
from entrypoint.tell import report as reports
from entrypoint.tell.board import Phase
from entrypoint.tell.presentable import presentable
from entrypoint.tell.report import HtmlUnwrittenError, Report, write
from entrypoint.tell.report_contents import CODES, CONFIDENCES, RETRIES, contents
from entrypoint.tell.report_markdown import block, code, markdown, prose
from entrypoint.verdict.verdict import Verdict

SECRET = "s3cret<&|`>key"


def page(report: Report) -> str:
    """Return a report's Markdown as it is written."""
    return markdown(contents(presentable(report, Masker())))


def tokens(text: str) -> list[Token]:
    """Return what a page on GitHub is made of."""
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def headings(text: str) -> list[str]:
    """Return the headings of a page, in their order."""
    found = tokens(text)
    return [found[place + 1].content for place, token in enumerate(found) if token.type == "heading_open"]


def inner(text: str) -> set[str]:
    """Return the kinds of everything inside of paragraphs, cells and items."""
    return {child.type for token in tokens(text) for child in token.children or ()}


def test_the_page_says_what_happened_then_what_to_do_then_how_it_came_to_that():
    assert headings(page(REPORT)) == [
        "The engine ran out of memory.",
        "What to change",
        "What to type next",
        "Evidence",
        "Timeline",
        "Memory",
        "Settings",
        "What had warned before",
        "What followed from it",
        "The log",
    ]


def test_the_verdict_comes_first_with_confidence_in_words():
    assert page(REPORT).startswith(
        """\
# The engine ran out of memory.

It ended by itself while capturing, with signal 9 (SIGKILL).

- **Exit code:** `71`, out of memory
- **Cause:** `memory`, certain: the cause says so itself, or a counter of the kernel does
- **Failed first:** rank 0, scheduler_2
- **During:** `capturing`
- **A retry:** helps only when something is changed first
- **Known as:** `oom`

**Why we believe it:**

- oom_kill of /proc/vmstat rose by 1.

**Worth knowing:**

- 2 requests were lost.

## What to change

Lower engine.mem_fraction_static, or take more nodes.

## What to type next

```bash
less +11961 /logs/1.0.0/server-0.log
supervise check --config supervise.toml
```

## Evidence

```text
Child process sglang::scheduler_TP2 (pid 31247) died with exit code -9.
```
"""
    )


def test_the_timeline_has_bars_of_relative_length():
    assert (
        """\
| state       | began (UTC) | lasted     | of 9 min 29 s     |
| ----------- | ----------- | ---------- | ----------------- |
| `starting`  | 10:00:12    | 36.1 s     | █▌                |
| `loading`   | 10:00:48    | 6 min 22 s | ████████████████▏ |
| `capturing` | 10:07:10    | 2 min 30 s | ██████▍           |
| `failed`    | 10:09:40    | –          |                   |
"""  # noqa: RUF001  # the dash is meant
        in page(REPORT)
    )


def test_states_of_a_run_of_days_have_their_day():
    assert "| `ready` | 01-02 10:00:00 | 1 d 1 h |" in page(
        replace(REPORT, phases=[Phase("ready", 122_400.0, 90_000.0)])
    )


def test_a_row_of_the_signature_file_is_named_with_its_place():
    text = page(replace(REPORT, signature="hw.no_device"))
    assert "- **Known as:** `hw.no_device`, see docs/signatures.md#hw.no_device" in text


def test_memory_is_a_curve_with_its_numbers_in_gib():
    lines = page(REPORT).splitlines()
    curve = next(line for line in lines if line.startswith("430.0 GiB "))
    assert curve.endswith(" 2.0 GiB")
    assert "█▇▇" in curve
    assert "▂▁" in curve
    assert "          10:00:12 to 10:09:41 UTC, 9 min 29 s; full height is 440.0 GiB" in lines
    for fact in (
        "- **Headroom at the end:** 2.0 GiB, at the lowest 2.0 GiB",
        "- **Floor:** 8.0 GiB",
        "- **Limit:** 440.0 GiB, of /sys/fs/cgroup/job_1/step_0",
        "- **Memory of the node:** 478.0 GiB",
        "- **Kills for memory:** 1 on the node",
        "- **Last avail mem that the engine printed:** 4.41 GiB",
        "| `sglang::scheduler_TP0` | 31245   | 98.0 GiB | 21%         |",
    ):
        assert fact in lines


def test_settings_stand_with_their_value_in_words_and_their_layer():
    rows = [" ".join(line.split()) for line in page(REPORT).splitlines()]
    assert "| `engine.mem_fraction_static` | `0.81` | file | `/home/me/su…se.toml:12` |" in rows
    assert "| `engine.attention_backend` | `(left out)` | profile | `profile qwen38` |" in rows
    assert "| `model.context_length` | `(not set)` | default | `default` |" in rows


def test_what_had_warned_is_named_by_its_rule():
    assert "- **warning** `memory-fraction-high`: 0.81 leaves 23 GiB for the host. Set it to 0.72." in page(REPORT)
    assert "stands in docs/rules.md" in page(REPORT)


def test_the_line_that_tells_is_marked_in_the_log_and_what_is_left_out_is_counted():
    lines = page(REPORT).splitlines()
    assert f"> {ROOT_NUMBER} | {ROOT_LINE}" in lines
    assert f"  {LOG_LINES} | after 28" in lines
    assert "The line marked with > tells. All of it is in `/logs/1.0.0/server-0.log`." in lines
    assert [line.strip() for line in lines if line.endswith("lines …")] == ["… 1 lines …"]


def test_a_log_of_unknown_length_is_shown_as_it_is():
    lines = page(replace(REPORT, log_lines=None)).splitlines()
    assert "after 28" in lines
    assert not any(line.startswith(">") for line in lines)


def test_evidence_that_only_ends_the_log_is_not_shown_twice():
    text = page(REPORT)
    assert text.count("after 28") == 1
    assert text.count(ROOT_LINE) == 2
    assert "## Evidence" not in page(replace(REPORT, evidence=TAIL[-12:]))


def test_a_line_that_tells_before_the_last_ones_is_not_marked():
    text = page(replace(REPORT, line_number=3))
    assert "The line marked" not in text
    assert f"  {LOG_LINES} | after 28" in text


def test_a_run_that_ended_as_asked_has_a_short_page():
    stopped = replace(
        REPORT,
        code=0,
        summary="Stopped as asked by SIGTERM, while ready.",
        remedy="",
        evidence=(),
        cause=Cause.STOPPED,
        signature="",
        root="",
        cascades=(),
        reasons=(),
        notes=(),
        memory=None,
        available_gib=None,
        settings=(),
        findings=(),
        next_command="",
        log_tail=(),
        phases=(),
    )
    assert page(stopped) == (
        """\
# Stopped as asked by SIGTERM, while ready.

- **Exit code:** `0`, stopped as asked
- **During:** `capturing`

## The log

All of it is in `/logs/1.0.0/server-0.log`.

---

supervise 1.2.3, 2026-10-20 10:09:43 UTC
"""
    )


def test_the_engine_s_own_figure_is_told_where_nobody_watched_memory():
    text = page(replace(REPORT, memory=None))
    assert "**Last avail mem that the engine printed:** 4.41 GiB" in text
    assert "Floor" not in text


@pytest.mark.parametrize("count", [1, 2, 300, 1000])
def test_a_curve_of_any_length_fits_into_a_terminal(count: int):
    text = page(replace(REPORT, memory=replace(MEMORY, points=points(count))))
    assert max(len(line) for line in text.split("## Settings")[0].splitlines()) <= 100


def test_memory_without_a_single_look_has_no_curve():
    text = page(replace(REPORT, memory=replace(MEMORY, points=())))
    assert "full height" not in text
    assert "**Floor:** 8.0 GiB" in text


def test_of_a_server_that_flapped_for_weeks_the_last_states_are_shown():
    text = page(replace(REPORT, phases=[Phase("ready", float(number), 1.0) for number in range(200)]))
    assert text.count("| `ready`") == 30
    assert "The last 30 states; 170 earlier ones are in the report's data." in text


def test_prose_and_tables_are_no_wider_than_a_terminal():
    report = replace(REPORT, remedy="Lower the fraction of memory. " * 20, reasons=("Because it is so. " * 20,))
    assert all(len(line) <= 100 for line in page(report).split("## The log")[0].splitlines())


@pytest.mark.parametrize("line", HOSTILE)
def test_no_line_of_a_log_leaves_its_block(line: str):
    text = page(replace(REPORT, evidence=(f"e{line}", line), log_tail=("", line), cascades=(line,), next_command=line))
    assert headings(text)[-1] == "The log"
    assert len(headings(text)) == 10
    assert [token.type for token in tokens(text)].count("fence") == 5
    assert inner(text) <= {"text", "text_special", "softbreak", "code_inline", "strong_open", "strong_close"}


@pytest.mark.parametrize("words", HOSTILE)
def test_no_text_acts_in_prose_or_in_a_table(words: str):
    report = replace(
        REPORT,
        summary=words,
        remedy=words,
        reasons=(words,),
        notes=(words,),
        root=words,
        signature=words,
        phase=words,
        phases=(Phase(words, 0.0, 1.0),),
        log_path=Path(words),
        settings=(replace(REPORT.settings[0], value=words, source=words, name=words),),
        findings=(replace(REPORT.findings[0], message=words, remedy=words, rule=words),),
        memory=replace(MEMORY, limit_of=words, owners=(replace(MEMORY.owners[0], name=words),)),
    )
    text = page(report)
    assert headings(text)[1:] == headings(page(REPORT))[1:]
    assert inner(text) <= {"text", "text_special", "softbreak", "code_inline", "strong_open", "strong_close"}
    kinds = [token.type for token in tokens(text)]
    assert kinds.count("table_open") == 3
    assert kinds.count("bullet_list_open") == 5
    assert not {"html_block", "ordered_list_open", "blockquote_open", "code_block"} & set(kinds)
    assert kinds.count("td_open") == 4 + 4 + 4
    assert len(text) < 20_000


@pytest.mark.parametrize("words", HOSTILE)
def test_nothing_acts_in_the_terminal_that_shows_the_page(words: str):
    text = page(replace(REPORT, summary=words, evidence=(words,), log_tail=(words,)))
    assert not [character for character in text if not character.isprintable() and character not in "\n\ufffd"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("engine.mem_fraction_static = 0.3 * x", "engine.mem_fraction_static = 0.3 * x"),
        ("~/.cache and $SCRATCH", "~/.cache and $SCRATCH"),
        ("C:\\x", "C:\\x"),
        ("_a_ *b* ~c~ $d$", "\\_a\\_ \\*b\\* \\~c\\~ \\$d\\$"),
        ("<b> [x] `y` &amp; \\*", "\\<b> \\[x] \\`y\\` \\&amp; \\\\*"),
    ],
)
def test_prose_is_escaped_only_where_something_would_act(text: str, escaped: str):
    assert prose(text) == escaped


def test_spans_and_blocks_hold_any_number_of_backticks():
    assert code("a`b") == "``a`b``"
    assert code("`") == "`` ` ``"
    assert code("a|b") == "`a\\|b`"
    assert code("") == ""
    assert block(["````"]) == "`````text\n````\n`````"


def test_every_code_confidence_and_retry_has_words():
    assert set(CODES) == set(ExitCode)
    assert set(CONFIDENCES) == set(Confidence)
    assert set(RETRIES) == set(Retry)


def test_data_have_everything_for_programs():
    data = json.loads(json.dumps(REPORT.data()))
    assert {name: data[name] for name in ("code", "cause", "confidence", "retry", "signature", "root")} == {
        "code": 71,
        "cause": "memory",
        "confidence": "certain",
        "retry": "changed",
        "signature": "oom",
        "root": "rank 0, scheduler_2",
    }
    assert data["phases"][0] == {"name": "starting", "began_unix_s": 1792490412.0, "lasted_s": 36.1}
    assert data["memory"]["points"][0] == {
        "unix_s": 1792490412.0,
        "available_bytes": 463 * GIB,
        "headroom_bytes": 430 * GIB,
    }
    assert data["memory"]["owners"][1] == {"name": "page cache", "bytes": 31 * GIB, "pid": None}
    assert data["settings"][0] == {
        "name": "engine.mem_fraction_static",
        "value": 0.81,
        "layer": "file",
        "source": "/home/me/supervise.toml:12",
    }
    assert data["findings"][0]["rule"] == "memory-fraction-high"
    assert data["generated_at"] == "2026-10-20T10:09:43+00:00"
    assert data["version"] == "1.2.3"
    assert data["log_tail"] == list(TAIL)
    assert data["log_path"] == "/logs/1.0.0/server-0.log"
    assert data["next_command"].startswith("less ")
    assert set(data) >= {"summary", "remedy", "evidence", "phase", "notes", "status", "cascades", "reasons"}


def test_a_report_of_a_verdict_says_what_the_verdict_says():
    verdict = Verdict(
        code=ExitCode.OUT_OF_MEMORY,
        summary=REPORT.summary,
        remedy=REPORT.remedy,
        evidence=tuple(REPORT.evidence),
        phase=REPORT.phase,
        cause=REPORT.cause,
        confidence=REPORT.confidence,
        retry=REPORT.retry,
        signature=REPORT.signature,
        root=REPORT.root,
        cascades=tuple(REPORT.cascades),
        line_number=REPORT.line_number,
        reasons=tuple(REPORT.reasons),
    )
    made = Report.of(
        verdict,
        phases=REPORT.phases,
        log_tail=REPORT.log_tail,
        log_path=REPORT.log_path,
        log_lines=REPORT.log_lines,
        notes=REPORT.notes,
        status=REPORT.status,
        memory=REPORT.memory,
        available_gib=REPORT.available_gib,
        settings=REPORT.settings,
        findings=REPORT.findings,
        next_command=REPORT.next_command,
    )
    assert replace(made, generated_unix_s=REPORT.generated_unix_s, version=REPORT.version) == REPORT


def test_all_forms_are_written_privately_and_nothing_else_is_left(tmp_path: Path):
    write(REPORT, tmp_path, 3, Masker())
    files = [tmp_path / f"report-3.{form}" for form in ("html", "json", "md")]
    assert sorted(tmp_path.iterdir()) == files
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert json.loads(files[1].read_text())["code"] == 71


def test_a_secret_that_would_be_escaped_or_cut_is_masked_in_every_form(tmp_path: Path):
    line = f"x {SECRET} y"
    write(
        replace(
            REPORT,
            summary=line,
            remedy=line,
            evidence=(line, f"{SECRET[:6]}\x1b[0m{SECRET[6:]}"),
            notes=(line,),
            reasons=(line,),
            root=line,
            cascades=(line,),
            status={"command": [line], "engine": {"api_key": "unknown-to-us"}},
            log_tail=(line, "z" * 8180 + SECRET * 3),
            log_path=Path(f"/logs/{SECRET}"),
            settings=(replace(REPORT.settings[0], value={"deep": [line]}, source=line),),
            findings=(replace(REPORT.findings[0], message=line, remedy=line),),
            memory=replace(MEMORY, owners=(replace(MEMORY.owners[0], name=line),)),
            phases=(Phase(line, 0.0, 1.0),),
            next_command=f"supervise --key '{SECRET}'\nsecond",
        ),
        tmp_path,
        0,
        Masker([SECRET]),
    )
    for form in ("md", "json", "html"):
        text = (tmp_path / f"report-0.{form}").read_text()
        assert "***" in text
        for part in ("s3cret", "key'\nsecond", "unknown-to-us"):
            assert part not in text


def test_lines_with_broken_characters_can_be_written(tmp_path: Path):
    write(replace(REPORT, log_tail=("broken \udcff",)), tmp_path, 0, Masker())
    for form in ("md", "json", "html"):
        assert "broken" in (tmp_path / f"report-0.{form}").read_text(encoding="utf-8")


def test_the_page_for_a_browser_comes_last_and_its_failure_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(_: object) -> str:
        there = {path.name for path in tmp_path.iterdir()}
        raise ValueError(f"after {sorted(there)}")

    monkeypatch.setattr("entrypoint.tell.report_html.html", fail)
    with pytest.raises(HtmlUnwrittenError, match=r"report-0.html is missing: ValueError: after .*json.*md"):
        write(REPORT, tmp_path, 0, Masker())
    assert {path.name for path in tmp_path.iterdir()} == {"report-0.md", "report-0.json"}


def test_a_directory_that_is_gone_is_an_error(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        write(REPORT, tmp_path / "gone", 0, Masker())


def test_templates_are_imported_only_when_a_page_is_written():
    assert "jinja2" not in Path(reports.__file__).read_text().split("def write")[0]
