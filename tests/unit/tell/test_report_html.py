"""The page for a browser: one file, whole, with everything that the other form says."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from report_samples import HOSTILE, MEMORY, REPORT, ROOT_LINE, ROOT_NUMBER, points

from entrypoint.settings.redaction import Masker
from entrypoint.tell.board import Phase
from entrypoint.tell.presentable import presentable
from entrypoint.tell.report import Report
from entrypoint.tell.report_contents import contents
from entrypoint.tell.report_html import html

MOST_BYTES = 1_000_000
VOID = {"meta", "link", "br", "hr", "img", "input"}
LOADING = {"src", "href", "xlink:href", "srcset", "data", "action", "poster"}


class Outline(HTMLParser):
    """Reads a page; an element that is not closed where it should be is an error.

    Attributes:
        open: Elements that are open.
        tags: All elements with their attributes.
        words: The text that a reader sees.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)


def page(report: Report) -> str:
    """Return a report's page as it is written."""
    return html(contents(presentable(report, Masker())))


def drawings(text: str) -> list[str]:
    """Return the charts of a page."""
    return re.findall(r"<svg.*?</svg>", text, re.DOTALL)


@pytest.fixture(scope="module")
def sample() -> str:
    """The page about an engine that ran out of memory."""
    return page(REPORT)


def test_everything_that_a_reader_needs_is_on_the_page(sample: str):
    words = Outline(sample).words
    for part in (
        "The engine ran out of memory.",
        "71 out of memory",
        "memory certain: the cause says so itself",
        "helps only when something is changed first",
        "oom_kill of /proc/vmstat rose by 1.",
        "2 requests were lost.",
        "Lower engine.mem_fraction_static, or take more nodes.",
        "supervise check --config supervise.toml",
        "loading 10:00:48 6 min 22 s 67.2 %",
        "2.0 GiB, at the lowest 2.0 GiB",
        "440.0 GiB, of /sys/fs/cgroup/job_1/step_0",
        "4.41 GiB",
        "sglang::scheduler_TP0 31245 98.0 GiB 21 %",
        "engine.mem_fraction_static 0.81 file /home/me/supervise.toml:12",
        "engine.attention_backend (left out) profile",
        "warning memory-fraction-high : 0.81 leaves 23 GiB for the host. Set it to 0.72.",
        "rank 1: the store is gone",
        f"{ROOT_NUMBER} {ROOT_LINE}",
        "Known as oom",
        "/logs/1.0.0/server-0.log",
        "supervise 1.2.3, 2026-10-20 10:09:43 UTC",
    ):
        assert part in words


def test_the_page_needs_nothing_but_itself(sample: str):
    outline = Outline(sample)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base"} & {tag for tag, _ in outline.tags}
    assert not [name for _, attributes in outline.tags for name in attributes if name in LOADING or name[:2] == "on"]
    assert "url(" not in sample
    assert "@import" not in sample
    assert set(re.findall(r"https?://[^\"' ]+", sample)) == {"http://www.w3.org/2000/svg"}


def test_the_page_suits_light_dark_print_and_narrow_screens(sample: str):
    for query in ("prefers-color-scheme: dark", "print", "max-width"):
        assert re.search(rf"@media \(?{query}", sample)
    assert '<meta name="viewport"' in sample
    assert '<html lang="en">' in sample


def test_each_chart_is_there_for_wide_and_for_narrow_screens_and_no_identifier_twice(sample: str):
    assert [ET.fromstring(drawing).get("viewBox") for drawing in drawings(sample)] == [
        "0 0 820 62",
        "0 0 340 62",
        "0 0 820 246",
        "0 0 340 246",
    ]
    identifiers = [attributes["id"] for _, attributes in Outline(sample).tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers)) == 8


def test_the_line_that_tells_is_marked_once(sample: str):
    assert re.findall("<mark>(.*?)</mark>", sample) == [ROOT_LINE]


def test_a_run_that_ended_as_asked_is_not_shown_as_a_failure(sample: str):
    assert 'class="verdict"' in sample
    assert 'class="verdict stopped"' in page(replace(REPORT, code=0))


def test_without_memory_phases_and_log_there_is_still_a_page():
    text = page(
        replace(
            REPORT,
            memory=None,
            available_gib=None,
            phases=(),
            log_tail=(),
            log_lines=None,
            evidence=(),
            settings=(),
            findings=(),
            cascades=(),
            reasons=(),
            notes=(),
            next_command="",
            remedy="",
        )
    )
    assert drawings(text) == []
    assert re.findall("<h2>(.*?)</h2>", text) == ["The log"]
    Outline(text)


@pytest.mark.parametrize(("count", "charts"), [(0, 2), (1, 4), (300, 4)])
def test_any_number_of_looks_at_memory_makes_a_page(count: int, charts: int):
    text = page(replace(REPORT, memory=replace(MEMORY, points=points(count) if count else ())))
    assert len(drawings(text)) == charts
    assert "8.0 GiB" in Outline(text).words


@pytest.mark.parametrize("words", HOSTILE)
def test_no_text_becomes_an_element_wherever_it_stands(sample: str, words: str):
    text = page(
        replace(
            REPORT,
            summary=words,
            remedy=words,
            evidence=(words,),
            phase=words,
            phases=(Phase(words, 0.0, 1.0), *REPORT.phases),
            notes=(words,),
            log_tail=(words,),
            log_path=Path(words),
            signature=words,
            root=words,
            cascades=(words,),
            reasons=(words,),
            memory=replace(MEMORY, limit_of=words, owners=(replace(MEMORY.owners[0], name=words),)),
            settings=(replace(REPORT.settings[0], name=words, value=words, source=words),),
            findings=(replace(REPORT.findings[0], rule=words, message=words, remedy=words),),
            next_command=words,
        )
    )
    tags = {tag for tag, _ in Outline(text).tags}
    assert tags <= {tag for tag, _ in Outline(sample).tags}
    for drawing in drawings(text):
        ET.fromstring(drawing)
    assert not [character for character in text if not character.isprintable() and character not in "\n\ufffd"]


def test_what_looks_like_a_template_is_a_text():
    assert "{{ 7 * 7 }}" in Outline(page(replace(REPORT, remedy="{{ 7 * 7 }}"))).words


@pytest.mark.parametrize("letter", ["<", "&", "x"])
def test_the_page_stays_small_whatever_a_run_leaves_behind(letter: str):
    long = letter * 100_000
    many = (long,) * 300
    text = page(
        replace(
            REPORT,
            summary=long,
            remedy=long,
            evidence=many,
            notes=many,
            reasons=many,
            cascades=many,
            log_tail=many,
            next_command=long,
            phases=[Phase("ready", float(number), 1.0) for number in range(200)],
            settings=[replace(REPORT.settings[0], value=long)] * 300,
            findings=[replace(REPORT.findings[0], message=long)] * 300,
            memory=replace(MEMORY, points=points(2000), owners=MEMORY.owners * 300),
        )
    )
    assert len(text.encode()) < MOST_BYTES


def test_writing_data_and_markdown_imports_no_template_library():
    listing = "import sys, entrypoint.tell.report; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True, text=True).stdout.split()
    assert "entrypoint.tell.report_markdown" in modules
    assert not {"jinja2", "markupsafe"} & set(modules)
