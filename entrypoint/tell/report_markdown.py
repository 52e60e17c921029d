"""The report as Markdown that reads well in a terminal and on a page.

Lines of logs stand in fenced blocks and values in code spans, where nothing acts. In prose only what would act is
escaped, so that ``mem_fraction_static`` stays as it is for whoever reads the file itself.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from entrypoint.readable import abbreviated, duration
from entrypoint.tell.excerpt import LogLine
from entrypoint.tell.report_contents import RULES_EXPLAINED, Contents, Fact
from entrypoint.tell.sparkline import bar, sparkline
from entrypoint.verdict.evidence import MemoryEvidence
from entrypoint.verdict.wording import size

WIDTH = 96
"""Columns of prose and tables."""
_CURVE = 64
_NAME, _VALUE, _SOURCE = 28, 26, 22
_OWNER = 40
_ACTING = r"\\(?=[!-/:-@\[-`{-~])|[`\[<]|&(?=#?\w+;)"
_PAIRED = (r"\*+", r"~+", r"\$+", r"(?<!\w)_+|_+(?!\w)")
"""Marks that act only in pairs."""
_FIRST = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$))|(?=[>|=~:]|[-+#*][-+#*=|:\s]*(?:\s|$)))")
"""What makes a line something else than prose when it begins with it."""
_LAST_HASHES = re.compile(r"(?<=\s)#+$")


def markdown(held: Contents) -> str:
    """Return the page."""
    return "\n\n".join(part for part in _parts(held) if part) + "\n"


def prose(text: str) -> str:
    """Return one paragraph in which nothing acts."""
    acting = [_ACTING, *(mark for mark in _PAIRED if len(re.findall(mark, text)) > 1)]
    return re.sub("|".join(acting), lambda found: "".join(f"\\{character}" for character in found[0]), text)


def code(text: str) -> str:
    """Return a code span that holds any text, also in a table."""
    fence = "`" * (_longest_run(text) + 1)
    air = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{air}{text}{air}{fence}".replace("|", "\\|") if text else ""


def block(lines: Sequence[str], language: str = "text") -> str:
    """Return a fenced block that no line in it can end."""
    text = "\n".join(lines)
    fence = "`" * max(_longest_run(text) + 1, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _parts(held: Contents) -> Iterator[str]:
    yield f"# {_one_line(held.title)}"
    yield _paragraph(held.lead)
    yield "\n".join(map(_fact, held.facts))
    if held.reasons:
        yield "**Why we believe it:**"
        yield _items(map(prose, held.reasons))
    if held.notes:
        yield "**Worth knowing:**"
        yield _items(map(prose, held.notes))
    if held.remedy:
        yield "## What to change"
        yield _paragraph(held.remedy)
    if held.next_command:
        yield "## What to type next"
        yield block(held.next_command.split("\n"), "bash")
    if held.evidence:
        yield "## Evidence"
        yield block(held.evidence)
    yield from _timeline(held)
    yield from _memory(held)
    if held.settings:
        yield "## Settings"
        yield _table(
            ("setting", "value", "layer", "set by"),
            [
                (
                    code(abbreviated(setting.name, _NAME)),
                    code(abbreviated(setting.value, _VALUE)),
                    setting.layer,
                    code(abbreviated(setting.source, _SOURCE)),
                )
                for setting in held.settings
            ],
        )
    if held.findings:
        yield "## What had warned before"
        yield _items(
            f"**{finding.severity}** {code(finding.rule)}: {prose(finding.message)} {prose(finding.remedy)}"
            for finding in held.findings
        )
        yield RULES_EXPLAINED
    if held.cascades:
        yield "## What followed from it"
        yield block(held.cascades)
    yield from _log(held)
    yield f"---\n\n{_one_line(held.footer)}"


def _timeline(held: Contents) -> Iterator[str]:
    if not held.phases:
        return
    yield "## Timeline"
    if held.phases_skipped:
        yield f"The last {len(held.phases)} states; {held.phases_skipped} earlier ones are in the report's data."
    rows = [
        (code(abbreviated(phase.name, _NAME)), phase.began, phase.lasted, bar(phase.share)) for phase in held.phases
    ]
    yield _table(("state", "began (UTC)", "lasted", f"of {held.whole}"), rows)


def _memory(held: Contents) -> Iterator[str]:
    if not held.memory_facts:
        return
    yield "## Memory"
    if held.memory is not None and held.memory.points:
        yield block(list(_curve(held.memory)))
    yield "\n".join(map(_fact, held.memory_facts))
    if held.owners:
        rows = [
            (code(abbreviated(owner.name, _OWNER)), owner.pid, owner.size, f"{owner.share:.0%}")
            for owner in held.owners
        ]
        yield _table(("held by", "process", "size", "of the node"), rows)


def _curve(memory: MemoryEvidence) -> Iterator[str]:
    points, high = memory.points, memory.limit_bytes or memory.total_bytes
    first, last = points[0], points[-1]
    begin = f"{size(first.headroom_bytes)} "
    yield (
        begin
        + sparkline([point.headroom_bytes for point in points], high=high, width=_CURVE)
        + (f" {size(last.headroom_bytes)}")
    )
    times = [datetime.fromtimestamp(point.unix_s, UTC).strftime("%H:%M:%S") for point in (first, last)]
    took = duration(last.unix_s - first.unix_s)
    yield f"{' ' * len(begin)}{times[0]} to {times[1]} UTC, {took}; full height is {size(high)}"


def _log(held: Contents) -> Iterator[str]:
    yield "## The log"
    marked = "The line marked with > tells. " if held.has_root else ""
    yield f"{marked}All of it is in {code(held.log_path)}."
    if held.log:
        wide = max(len(str(line.number or "")) for line in held.log)
        yield block([text for line in held.log for text in _log_line(line, wide)])


def _log_line(line: LogLine, wide: int) -> Iterator[str]:
    if line.skipped:
        yield f"  {'':>{wide}} … {line.skipped} lines …"
    if line.number is None:
        yield line.text
    else:
        yield f"{'>' if line.is_root else ' '} {line.number:>{wide}} | {line.text}"


def _fact(fact: Fact) -> str:
    words = ", ".join(filter(None, (code(fact.code), prose(fact.words))))
    return _item(f"**{fact.label}:** {words}")


def _items(items: Iterable[str]) -> str:
    return "\n".join(map(_item, items))


def _item(text: str) -> str:
    return "- " + "\n  ".join(_wrapped(text, WIDTH - 2))


def _paragraph(text: str) -> str:
    return "\n".join(_wrapped(prose(text), WIDTH))


def _one_line(text: str) -> str:
    return _LAST_HASHES.sub(lambda hashes: f"\\{hashes[0]}", _inert_beginning(prose(text)))


def _wrapped(text: str, width: int) -> list[str]:
    """Return lines of escaped prose; none begins with what would make it something else."""
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [_inert_beginning(line) for line in lines]


def _inert_beginning(line: str) -> str:
    return _FIRST.sub(lambda found: f"{found[0]}\\", line)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * max(width, 3) for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
