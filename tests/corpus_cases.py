"""The corpus: logs of ends, each with what else is known of it and the verdict that is right."""

import gzip
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import tomli
from pydantic import BaseModel, ConfigDict, Field

from entrypoint.cause import Cause, Confidence, Retry
from entrypoint.engine.signature_book import packaged_signatures
from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.exit_status import ExitStatus
from entrypoint.verdict.evidence import LogEvidence, MemoryEvidence, MemoryPoint, RankEnd
from entrypoint.verdict.gather import LogGatherer

CORPUS = Path(__file__).parent / "corpus"
NODE_BYTES = 512 << 30
FLOOR_BYTES = 8 << 30


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Memory(_Table):
    """How memory went, as far as a verdict asks."""

    node_oom_kills: int | None = None
    cgroup_oom_kills: int | None = None
    at_floor: bool = False
    limit_gib: float | None = None
    limit_of: str | None = None

    def evidence(self) -> MemoryEvidence:
        left = FLOOR_BYTES // 2 if self.at_floor else NODE_BYTES // 2
        return MemoryEvidence(
            total_bytes=NODE_BYTES,
            floor_bytes=FLOOR_BYTES,
            limit_bytes=None if self.limit_gib is None else int(self.limit_gib * (1 << 30)),
            limit_of=self.limit_of,
            points=(MemoryPoint(0.0, left, left),),
            node_oom_kills=self.node_oom_kills,
            cgroup_oom_kills=self.cgroup_oom_kills,
            at_floor=self.at_floor,
        )


class Rank(_Table):
    """What is known of a rank beside its log."""

    phase: str
    status: str | None = None
    unasked: bool = False
    memory: Memory | None = None


class Expected(_Table):
    """The verdict that is right; what is not named is not compared."""

    healthy: bool = False
    cause: Cause | None = None
    confidence: Confidence | None = None
    signature: str | None = None
    root: str | None = None
    code: int | None = None
    retry: Retry | None = None
    summary: str = ""
    cascades: tuple[str, ...] = ()


class Case(_Table):
    """One case of the corpus."""

    description: str
    source: str
    ranks: Mapping[int, Rank]
    expected: Expected
    name: str = Field("")

    def ends(self) -> list[RankEnd]:
        """Return what is known of each rank's end, the logs read as they lie."""
        return [self._end(number, rank) for number, rank in sorted(self.ranks.items())]

    def _end(self, number: int, rank: Rank) -> RankEnd:
        log = log_evidence(CORPUS / self.name / f"rank-{number}.log")
        return RankEnd(
            number,
            rank.phase,
            log,
            was_ready=rank.phase == "ready",
            status=None if rank.status is None else ExitStatus.parse(rank.status),
            memory=None if rank.memory is None else rank.memory.evidence(),
            lived_s=None if rank.status is None else 60.0,
            unasked=rank.unasked,
        )


@cache
def _index() -> SignatureIndex:
    return SignatureIndex(packaged_signatures())


def log_evidence(path: Path) -> LogEvidence:
    """Return what a log of the corpus holds, also where it is compressed."""
    packed = path.with_name(f"{path.name}.gz")
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    gatherer = LogGatherer(path.name, _index())
    gatherer.feed(text if text.endswith(b"\n") else text + b"\n")
    return gatherer.evidence()


def cases() -> list[Case]:
    """Return every case, by name."""
    directories = sorted(path for path in CORPUS.iterdir() if path.is_dir())
    return [Case(**tomli.loads((path / "case.toml").read_text()), name=path.name) for path in directories]
