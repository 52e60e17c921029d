"""Charts as SVG that stands inside a page: pure functions from data to text.

They carry no colours of their own: the page's style gives them by class, so that light, dark and print are its
business. A chart is as wide as it is told and is not meant to be scaled far, since its letters would be scaled with
it; a page has one for wide and one for narrow screens.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from entrypoint.readable import duration, plain
from entrypoint.tell.board import Phase
from entrypoint.verdict.evidence import MemoryEvidence, MemoryPoint
from entrypoint.verdict.wording import size

_Place = tuple[float, float]

_GIB = 1 << 30
_LETTER = 6.6
"""Width of a letter of 11 px, with some air."""
_LINE = 14
_TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_KINDS = {
    **dict.fromkeys(("planned", "checking", "warming", "waiting"), "before"),
    **dict.fromkeys(("starting", "capturing", "proving"), "coming"),
    **dict.fromkeys(("loading", "engine-up"), "coming-too"),
    "ready": "serving",
    **dict.fromkeys(("degraded", "held"), "unwell"),
    **dict.fromkeys(("draining", "stopping", "restarting"), "leaving"),
    **dict.fromkeys(("aborting", "failed"), "failed"),
}


def kind(state: str) -> str:
    """Return the class that colours a state: neighbours in a start have different ones."""
    return _KINDS.get(state, "other")


def timeline_chart(phases: Sequence[Phase], *, width: int = 720, name: str = "timeline") -> str:
    """Return the states of a run as one bar along the time; without any that lasted, nothing.

    Args:
        phases: The states, oldest first; one without an end counts to where it began.
        width: Width in pixels.
        name: What its identifiers begin with; each chart of a page needs another.
    """
    if not phases or (whole_s := _end_s(phases) - phases[0].began_at) <= 0:
        return ""
    began = phases[0].began_at
    frame = _Frame(width, left=6, top=4, right=width - 6, bottom=40, x_max=whole_s, y_max=1)
    words = ", ".join(f"{plain(phase.name)} {duration(phase.lasted_s)}" for phase in phases[-20:])
    svg = _svg(name, width, 62, "Timeline of states", f"Most recent states, oldest first: {words}.")
    narrowest = min(2.0, (frame.right - frame.left) / len(phases))
    for phase in phases:
        x = frame.x(phase.began_at - began)
        wide = max(frame.x(phase.began_at - began + (phase.lasted_s or 0)) - x, narrowest)
        x = min(x, frame.right - wide)
        group = ET.SubElement(svg, "g", {"class": f"state {kind(phase.name)}"})
        ET.SubElement(group, "title").text = f"{plain(phase.name)}, {duration(phase.lasted_s)}"
        box = {"x": x, "y": frame.top, "width": max(wide - 1, wide * 0.8), "height": frame.bottom - frame.top}
        ET.SubElement(group, "rect", {name: _number(value) for name, value in box.items()})
        label = _fitting(plain(phase.name), duration(phase.lasted_s), wide)
        for number, text in enumerate(label):
            y = (frame.top + frame.bottom) / 2 + 4 + _LINE * (number - (len(label) - 1) / 2)
            _text(group, (x + wide / 2, y), text, "middle")
    _time_axis(svg, frame)
    return ET.tostring(svg, encoding="unicode")


def memory_chart(memory: MemoryEvidence, *, width: int = 720, name: str = "memory") -> str:
    """Return how memory went until the end, in GiB over time; without points, nothing.

    The curve is the headroom: what the engine could still get. Where the node had more to give than that, a thin line
    shows it.

    Args:
        memory: What was seen.
        width: Width in pixels.
        name: What its identifiers begin with; each chart of a page needs another.
    """
    points = memory.points
    if not points:
        return ""
    began, last = points[0].unix_s, points[-1]
    top_bytes = max(
        memory.limit_bytes or memory.total_bytes, *(max(p.headroom_bytes, p.available_bytes) for p in points), 1
    )
    steps = _steps(top_bytes / _GIB, 5)
    frame = _Frame(
        width,
        left=52,
        top=22,
        right=width - 14,
        bottom=206,
        x_max=max(last.unix_s - began, 1.0),
        y_max=max(steps[-1], top_bytes / _GIB) * 1.04,
    )
    svg = _svg(name, width, 246, "Memory until the end", _memory_words(memory))
    for step in steps:
        _line(svg, (frame.left, frame.y(step)), (frame.right, frame.y(step)), "grid")
        _text(svg, (frame.left - 6, frame.y(step) + 4), f"{step:g}", "end")
    _text(svg, (4, 12), "GiB", "start")
    curve = [(frame.x(p.unix_s - began), frame.y(p.headroom_bytes / _GIB)) for p in points]
    if any(p.available_bytes > p.headroom_bytes for p in points):
        ET.SubElement(
            svg, "polyline", {"class": "available", "points": _pairs(_available(points, frame, began)), "fill": "none"}
        )
    base = frame.bottom
    ET.SubElement(
        svg, "polygon", {"class": "area", "points": _pairs([(curve[0][0], base), *curve, (curve[-1][0], base)])}
    )
    ET.SubElement(svg, "polyline", {"class": "curve", "points": _pairs(curve), "fill": "none"})
    _references(svg, frame, memory)
    _time_axis(svg, frame)
    _end(svg, frame, curve[-1], f"{size(last.headroom_bytes)} at the end")
    return ET.tostring(svg, encoding="unicode")


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where data are drawn.

    Attributes:
        width: Of the whole chart in pixels.
        left: Of the field for the data, in pixels, as the next three.
        top: See above.
        right: See above.
        bottom: See above.
        x_max: Seconds at the right border.
        y_max: Value at the top.
    """

    width: int
    left: float
    top: float
    right: float
    bottom: float
    x_max: float
    y_max: float

    def x(self, seconds: float) -> float:
        """Return where a time lies."""
        return self.left + (self.right - self.left) * min(max(seconds / self.x_max, 0.0), 1.0)

    def y(self, value: float) -> float:
        """Return where a value lies."""
        return self.bottom - (self.bottom - self.top) * min(max(value / self.y_max, 0.0), 1.0)


def _end_s(phases: Sequence[Phase]) -> float:
    return max(phase.began_at + (phase.lasted_s or 0.0) for phase in phases)


def _available(points: Sequence[MemoryPoint], frame: _Frame, began: float) -> Iterator[_Place]:
    for point in points:
        yield frame.x(point.unix_s - began), frame.y(point.available_bytes / _GIB)


def _memory_words(memory: MemoryEvidence) -> str:
    least = min(memory.points, key=lambda point: point.headroom_bytes).headroom_bytes
    first, last = memory.points[0], memory.points[-1]
    limit = f", limit {size(memory.limit_bytes)}" if memory.limit_bytes is not None else ""
    return (
        f"Headroom went from {size(first.headroom_bytes)} to {size(last.headroom_bytes)} within "
        f"{duration(last.unix_s - first.unix_s)}; the least was {size(least)}. "
        f"Floor {size(memory.floor_bytes)}{limit}, node {size(memory.total_bytes)}."
    )


def _references(svg: ET.Element, frame: _Frame, memory: MemoryEvidence) -> None:
    """Draw the lines that the curve is read against; each has its words where the curve seldom is."""
    top_bytes = memory.total_bytes if memory.limit_bytes is None else memory.limit_bytes
    word = "node" if memory.limit_bytes is None else "limit"
    for css, value in (("limit", top_bytes), ("floor", memory.floor_bytes)):
        y = frame.y(value / _GIB)
        _line(svg, (frame.left, y), (frame.right, y), css)
    above = frame.y(top_bytes / _GIB) - 5, frame.y(memory.floor_bytes / _GIB) - 5
    _text(svg, (frame.right, above[0]), f"{word} {size(top_bytes)}", "end", "label limit")
    _text(svg, (frame.left + 6, above[1]), f"floor {size(memory.floor_bytes)}", "start", "label floor")


def _end(svg: ET.Element, frame: _Frame, end: _Place, words: str) -> None:
    x, y = end
    ET.SubElement(svg, "circle", {"class": "end", "cx": _number(x), "cy": _number(y), "r": "4"})
    below = y - frame.top < 3 * _LINE
    y += 18 if below else -10
    if x < frame.left + len(words) * _LETTER:
        _text(svg, (x + 8, y), words, "start", "label end")
    else:
        _text(svg, (x - 2, y), words, "end", "label end")


def _time_axis(svg: ET.Element, frame: _Frame) -> None:
    """Draw the time since the beginning, with as many marks as there is room for."""
    most = max(int((frame.right - frame.left) / 80), 2)
    day = _TIME_STEPS_S[-1]
    step = next((s for s in _TIME_STEPS_S if frame.x_max / s <= most), day * (int(frame.x_max / day / most) + 1))
    _line(svg, (frame.left, frame.bottom + 2), (frame.right, frame.bottom + 2), "axis")
    for number in range(int(frame.x_max // step) + 1):
        x = frame.x(number * step)
        _line(svg, (x, frame.bottom + 2), (x, frame.bottom + 6), "axis")
        words = "0" if number == 0 else duration(number * step)
        half = len(words) * _LETTER / 2
        anchor = "end" if x + half > frame.width else "start" if x - half < 0 else "middle"
        _text(svg, (x, frame.bottom + 19), words, anchor)


def _steps(top: float, most: int) -> list[float]:
    """Return round values from zero up to the top, not many more than are wanted."""
    rough = top / most
    power = 10.0 ** len(str(int(rough))) / 10 if rough >= 1 else 0.1
    step = next((power * factor for factor in (1, 2, 5) if power * factor >= rough), power * 10)
    return [step * number for number in range(int(top / step) + 1)]


def _fitting(name: str, lasted: str, wide: float) -> list[str]:
    """Return the lines of a label that fit into a width."""
    return [text for text in (name, lasted) if len(name) * _LETTER < wide and len(text) * _LETTER < wide]


def _svg(name: str, width: int, height: int, title: str, description: str) -> ET.Element:
    svg = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "chart",
            "viewBox": f"0 0 {width} {height}",
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-desc",
        },
    )
    ET.SubElement(svg, "title", {"id": f"{name}-title"}).text = title
    ET.SubElement(svg, "desc", {"id": f"{name}-desc"}).text = description
    return svg


def _text(parent: ET.Element, at: _Place, words: str, anchor: str, css: str = "tick") -> None:
    place = {"class": css, "x": _number(at[0]), "y": _number(at[1]), "text-anchor": anchor}
    ET.SubElement(parent, "text", place).text = words


def _line(parent: ET.Element, begin: _Place, end: _Place, css: str) -> None:
    ends = {"x1": _number(begin[0]), "y1": _number(begin[1]), "x2": _number(end[0]), "y2": _number(end[1])}
    ET.SubElement(parent, "line", {"class": css, **ends})


def _pairs(places: Iterable[_Place]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in places)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
