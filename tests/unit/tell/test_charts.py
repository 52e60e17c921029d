"""Charts: well-formed, accessible, and true to their data."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from report_samples import BEGAN, GIB, HOSTILE, MEMORY, PHASES, points

from entrypoint.run.states import State
from entrypoint.tell.board import Phase
from entrypoint.tell.charts import kind, memory_chart, timeline_chart
from entrypoint.verdict.evidence import MemoryEvidence, MemoryPoint

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart: str) -> ET.Element:
    """Return a chart's elements; raises where it is no XML."""
    return ET.fromstring(chart)


def texts(svg: ET.Element) -> list[str]:
    """Return the words that are drawn."""
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def places(svg: ET.Element, css: str) -> list[tuple[float, float]]:
    """Return the corners of a curve."""
    curve = next(element for element in svg.iter(f"{SVG}polyline") if element.get("class") == css)
    pairs = (pair.split(",") for pair in (curve.get("points") or "").split())
    return [(float(x), float(y)) for x, y in pairs]


def height_of(svg: ET.Element, css: str) -> float:
    """Return where a line of reference lies."""
    return next(float(line.get("y1") or "") for line in svg.iter(f"{SVG}line") if line.get("class") == css)


def assert_inside(svg: ET.Element) -> None:
    """Fail where something is drawn outside of the chart."""
    _, _, width, height = map(float, (svg.get("viewBox") or "").split())
    for element in svg.iter():
        for name, most in (("x", width), ("x1", width), ("x2", width), ("y", height), ("y1", height), ("y2", height)):
            assert 0 <= float(element.get(name, 0)) <= most, ET.tostring(element)
    for rect in svg.iter(f"{SVG}rect"):
        assert float(rect.get("x") or "") + float(rect.get("width") or "") <= width


def labels_of_axis_overlap(svg: ET.Element) -> bool:
    """Say whether two neighbouring words below the axis are closer than their letters are wide."""
    lowest = max(float(text.get("y") or "") for text in svg.iter(f"{SVG}text"))
    marks = [text for text in svg.iter(f"{SVG}text") if float(text.get("y") or "") == lowest]
    spans = []
    for mark in marks:
        x, wide = float(mark.get("x") or ""), 6.6 * len(mark.text or "")
        begin = {"start": x, "middle": x - wide / 2, "end": x - wide}[mark.get("text-anchor") or ""]
        spans.append((begin, begin + wide))
    return any(before[1] > after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize("chart", [memory_chart(MEMORY, name="m"), timeline_chart(PHASES, name="m")])
def test_a_chart_says_in_words_what_it_shows(chart: str):
    svg = parsed(chart)
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == "m-title m-desc"
    assert [element.get("id") for element in svg if element.tag in {f"{SVG}title", f"{SVG}desc"}] == [
        "m-title",
        "m-desc",
    ]


def test_the_words_of_the_memory_chart_name_every_number_that_matters():
    description = parsed(memory_chart(MEMORY)).find(f"{SVG}desc")
    assert description is not None
    assert description.text == (
        "Headroom went from 430.0 GiB to 2.0 GiB within 9 min 29 s; the least was 2.0 GiB. "
        "Floor 8.0 GiB, limit 440.0 GiB, node 478.0 GiB."
    )


def test_the_curve_falls_from_below_the_limit_to_below_the_floor():
    svg = parsed(memory_chart(MEMORY))
    curve = places(svg, "curve")
    assert len(curve) == 300
    assert height_of(svg, "limit") < curve[0][1] < curve[-1][1]
    assert curve[-1][1] > height_of(svg, "floor")
    assert [x for x, _ in curve] == sorted(x for x, _ in curve)
    assert {"limit 440.0 GiB", "floor 8.0 GiB", "2.0 GiB at the end", "GiB", "400", "2 min"} <= set(texts(svg))


def test_the_end_is_marked_where_the_curve_ends():
    svg = parsed(memory_chart(MEMORY))
    end = next(svg.iter(f"{SVG}circle"))
    assert (float(end.get("cx") or ""), float(end.get("cy") or "")) == places(svg, "curve")[-1]


def test_the_node_is_the_reference_where_no_cgroup_limits():
    words = texts(parsed(memory_chart(replace(MEMORY, limit_bytes=None))))
    assert "node 478.0 GiB" in words
    assert not any("limit" in word for word in words)


def test_what_the_node_had_is_drawn_only_where_it_was_more():
    same = tuple(replace(point, available_bytes=point.headroom_bytes) for point in MEMORY.points)
    assert 'class="available"' in memory_chart(MEMORY)
    assert 'class="available"' not in memory_chart(replace(MEMORY, points=same))


def test_without_points_there_is_no_chart():
    assert memory_chart(replace(MEMORY, points=())) == ""


@pytest.mark.parametrize("width", [340, 820])
@pytest.mark.parametrize("count", [1, 2, 300, 1000])
@pytest.mark.parametrize("end_bytes", [0, 2 * GIB, 439 * GIB])
def test_whatever_the_curve_everything_is_drawn_inside_and_no_words_overlap(width: int, count: int, end_bytes: int):
    curve = (*points(count)[:-1], MemoryPoint(BEGAN + 570, end_bytes, end_bytes))
    svg = parsed(memory_chart(replace(MEMORY, points=curve), width=width))
    assert_inside(svg)
    assert not labels_of_axis_overlap(svg)


@pytest.mark.parametrize("total_bytes", [1, 1 << 20, 300 << 20, GIB, 3 * GIB, 478 * GIB, 9000 * GIB])
def test_the_axis_has_some_round_numbers_for_any_amount_of_memory(total_bytes: int):
    memory = MemoryEvidence(total_bytes, 0, points=(MemoryPoint(0, total_bytes, total_bytes), MemoryPoint(60, 0, 0)))
    numbers = [text for text in texts(parsed(memory_chart(memory))) if re.fullmatch(r"[\d.]+", text)]
    assert len(set(numbers)) <= 9
    assert all(len(number) <= 5 for number in numbers)


@pytest.mark.parametrize("lasted_s", [0.5, 3, 61, 599, 3599, 7201, 90_000, 3_000_000])
@pytest.mark.parametrize("width", [340, 820])
def test_times_on_the_axis_have_room_for_any_length_of_a_run(lasted_s: float, width: int):
    svg = parsed(timeline_chart((Phase("ready", BEGAN, lasted_s),), width=width))
    assert_inside(svg)
    assert not labels_of_axis_overlap(svg)
    assert len([text for text in texts(svg) if text != "ready"]) >= 2


def test_each_state_is_as_wide_as_it_was_long():
    svg = parsed(timeline_chart(PHASES))
    starting, loading, capturing, _ = (float(rect.get("width") or "") for rect in svg.iter(f"{SVG}rect"))
    assert loading / starting == pytest.approx(382.4 / 36.1, rel=0.05)
    assert loading / capturing == pytest.approx(382.4 / 150.4, rel=0.05)


def test_a_state_has_its_name_where_that_fits_and_a_tooltip_in_any_case():
    svg = parsed(timeline_chart(PHASES, width=340))
    assert {"loading", "6 min 22 s"} <= set(texts(svg))
    assert "starting" not in texts(svg)
    tips = [title.text for group in svg.iter(f"{SVG}g") for title in group.iter(f"{SVG}title")]
    assert tips[0] == "starting, 36.1 s"


@pytest.mark.parametrize("phases", [(), (Phase("failed", BEGAN),)])
def test_without_a_state_that_lasted_there_is_no_timeline(phases: tuple[Phase, ...]):
    assert timeline_chart(phases) == ""


def test_two_hundred_states_stay_inside_a_narrow_chart():
    phases = [Phase("ready" if number % 2 else "degraded", BEGAN + number, 1.0) for number in range(200)]
    assert_inside(parsed(timeline_chart(phases, width=340)))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_cannot_break_out_of_its_text(name: str):
    svg = parsed(timeline_chart((Phase(name, BEGAN, 10.0),)))
    assert {element.tag for element in svg.iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "title", "desc", "g", "rect", "text", "line")
    }


def test_every_state_of_a_run_has_a_colour_of_its_kind():
    assert [state for state in State if kind(state) == "other"] == [State.STOPPED]
    assert kind("something new") == "other"
