"""The report: one page that says how a run ended, why that is believed, and what to do.

It is written three times with the same content: as data, as Markdown, and as a page for a browser.
"""

from pathlib import Path

from entrypoint.settings.redaction import Masker
from entrypoint.tell.files import write_private, write_private_json
from entrypoint.tell.presentable import presentable
from entrypoint.tell.report_contents import contents
from entrypoint.tell.report_data import Report
from entrypoint.tell.report_markdown import markdown

__all__ = ["HtmlUnwrittenError", "Report", "write"]


class HtmlUnwrittenError(OSError):
    """The page for a browser could not be made; the other two forms are there."""


def write(report: Report, directory: Path, rank: int, masker: Masker) -> None:
    """Write all forms of a report, without secrets: what a person in a hurry and a program need comes first.

    Raises:
        OSError: The directory cannot be written.
        HtmlUnwrittenError: Only the page for a browser could not be made.
    """
    shown = presentable(report, masker)
    write_private_json(directory / f"report-{rank}.json", shown.data())
    held = contents(shown)
    write_private(directory / f"report-{rank}.md", markdown(held))
    page = directory / f"report-{rank}.html"
    try:
        from entrypoint.tell.report_html import html

        write_private(page, html(held))
    except Exception as error:  # whatever it is, it must not look as if there were no report
        raise HtmlUnwrittenError(f"{page.name} is missing: {type(error).__name__}: {error}") from error
