"""How many lines of the engine's log are read, masked, searched and written in a second."""

from bench import log_scan
from bench.lab import Lab
from bench.record import Record, Topic
from bench.row import Kind, NotMeasuredError, Row

PIPE, COPY = "log pipe", "copy loop"


def sit(lab: Lab, record: Record) -> None:
    """Measure both once."""
    del lab
    try:
        result = log_scan.measure(rounds=1)
    except RuntimeError as error:
        raise NotMeasuredError(str(error)) from error
    record.add(PIPE, result.pipe_lines_per_s)
    record.add(COPY, result.copy_lines_per_s)


def rows(record: Record) -> tuple[Row, ...]:
    """Return the row."""
    return (
        Row(
            "log scan",
            record.measurement(PIPE),
            "lines/s",
            record.measurement(COPY),
            "a bare copy loop",
            log_scan.REQUIRED_LINES_PER_S,
            Kind.AT_LEAST,
        ),
    )


TOPIC = Topic("log-scan", frozenset({PIPE, COPY}), rows)
