"""A report to vary: an engine on a node of four APUs that ran out of memory while it captured graphs."""

from pathlib import Path

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode
from entrypoint.tell.board import Phase
from entrypoint.tell.report import Report
from entrypoint.tell.report_settings import SettingShown
from entrypoint.verdict.evidence import MemoryEvidence, MemoryOwner, MemoryPoint

GIB = 1 << 30
BEGAN = 1792490412.0
ROOT_LINE = "Child process sglang::scheduler_TP2 (pid 31247) died with exit code -9."
LOG_LINES = 12_000
TAIL = (*(f"before {number}" for number in range(30)), ROOT_LINE, *(f"after {number}" for number in range(29)))
ROOT_NUMBER = LOG_LINES - len(TAIL) + 31


def points(count: int) -> tuple[MemoryPoint, ...]:
    """Return a curve that falls from 430 GiB of headroom to 2 GiB in 569 s."""
    return tuple(
        MemoryPoint(BEGAN + 569 * place, round((463 - 428 * place) * GIB), round((430 - 428 * place) * GIB))
        for place in (number / max(count - 1, 1) for number in range(count))
    )


MEMORY = MemoryEvidence(
    total_bytes=478 * GIB,
    floor_bytes=8 * GIB,
    limit_bytes=440 * GIB,
    limit_of="/sys/fs/cgroup/job_1/step_0",
    points=points(300),
    node_oom_kills=1,
    at_floor=True,
    owners=(MemoryOwner("sglang::scheduler_TP0", 98 * GIB, 31245), MemoryOwner("page cache", 31 * GIB)),
)
PHASES = (
    Phase("starting", BEGAN, 36.1),
    Phase("loading", BEGAN + 36.1, 382.4),
    Phase("capturing", BEGAN + 418.5, 150.4),
    Phase("failed", BEGAN + 568.9),
)
REPORT = Report(
    code=ExitCode.OUT_OF_MEMORY,
    summary="The engine ran out of memory. It ended by itself while capturing, with signal 9 (SIGKILL).",
    remedy="Lower engine.mem_fraction_static, or take more nodes.",
    evidence=(ROOT_LINE, *TAIL[-12:]),
    phase="capturing",
    phases=PHASES,
    notes=("2 requests were lost.",),
    status={"state": "failed", "command": ["python", "-m", "sglang.launch_server"]},
    log_tail=TAIL,
    log_path=Path("/logs/1.0.0/server-0.log"),
    cause=Cause.MEMORY,
    confidence=Confidence.CERTAIN,
    retry=Retry.CHANGED,
    signature="oom",
    root="rank 0, scheduler_2",
    cascades=("rank 1: the store is gone",),
    reasons=("oom_kill of /proc/vmstat rose by 1.",),
    line_number=ROOT_NUMBER,
    log_lines=LOG_LINES,
    memory=MEMORY,
    available_gib=4.41,
    settings=(
        SettingShown("engine.mem_fraction_static", 0.81, "file", "/home/me/supervise.toml:12"),
        SettingShown("engine.attention_backend", "", "profile", "profile qwen38"),
        SettingShown("model.context_length", None, "default", "default"),
    ),
    findings=(
        Finding("memory-fraction-high", Severity.WARNING, "0.81 leaves 23 GiB for the host.", "Set it to 0.72."),
    ),
    next_command="less +11961 /logs/1.0.0/server-0.log\nsupervise check --config supervise.toml",
    generated_unix_s=BEGAN + 571,
    version="1.2.3",
)

HOSTILE = (
    "```",
    "````text",
    "~~~",
    "| a | b |",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "---",
    "===",
    "<script>alert(1)</script>",
    "<!-- comment",
    "&lt;b&gt; &amp;",
    "[text](http://example.org)",
    "![image](http://example.org/x.png)",
    "*one* **two** _three_ ~~four~~ `five`",
    "]]> </svg></pre></html>",
    "{{ 7 * 7 }} {% raw %}",
    "\x1b[31mred\x1b[0m \x1b]8;;http://example.org\x07link\x1b]8;;\x07",
    "nul \x00 bell \x07 escape \x1b backspace \x08",
    "two\nlines\r\nand a \r return",
    "broken \udcff, turned \u202e around, \ufeff, \uffff",
    "\\*already\\* escaped \\",
    "x" * 100_000,
    "word " * 20_000,
)
"""Texts that act as something in a terminal, in Markdown or in a page, and texts that have no end."""
