"""How much later the engine is healthy because it is supervised."""

from bench.record import Record, Topic
from bench.row import Kind, Row

SUPERVISED, BY_HAND = "start under supervise", "start by hand"
LIMIT_RATIO = 1.05


def rows(record: Record) -> tuple[Row, ...]:
    """Return the row."""
    return (
        Row(
            "start to engine healthy",
            record.measurement(SUPERVISED),
            "s",
            record.measurement(BY_HAND),
            "the same command by hand",
            LIMIT_RATIO,
            Kind.RATIO,
        ),
    )


TOPIC = Topic("start", frozenset({SUPERVISED, BY_HAND}), rows)
