"""The report as one page for a browser: everything in one file, no script, nothing from a network.

The template library takes a while to import, so that this module is imported only when a page is written.
"""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from entrypoint.tell.charts import kind, memory_chart, timeline_chart
from entrypoint.tell.report_contents import RULES_EXPLAINED, Contents

WIDTHS = {"wide": 820, "narrow": 340}
"""Widths of charts in pixels by the class that shows them: on a desk, on a telephone."""
_TEMPLATES = Path(__file__).with_name("templates")


def html(held: Contents) -> str:
    """Return the page."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page: str = environment.get_template("report.html.j2").render(
        held=held, kind=kind, rules_explained=RULES_EXPLAINED, timeline=_timeline(held), memory=_memory(held)
    )
    return page


def _timeline(held: Contents) -> dict[str, Markup]:
    return _by_width(
        {size: timeline_chart(held.timeline, width=width, name=f"timeline-{size}") for size, width in WIDTHS.items()}
    )


def _memory(held: Contents) -> dict[str, Markup]:
    if held.memory is None:
        return {}
    memory = held.memory
    return _by_width({size: memory_chart(memory, width=width, name=f"memory-{size}") for size, width in WIDTHS.items()})


def _by_width(charts: dict[str, str]) -> dict[str, Markup]:
    """Return the charts that show something; they are made as XML, which escapes what it holds."""
    return {size: Markup(chart) for size, chart in charts.items() if chart}  # noqa: S704  # see above
