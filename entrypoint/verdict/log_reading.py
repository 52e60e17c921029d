"""Reading logs into evidence: several files, several ranks, several ranks in one file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.verdict.carrier import Carrier, carrier_of
from entrypoint.verdict.evidence import LogEvidence
from entrypoint.verdict.gather import LogGatherer
from entrypoint.verdict.logfile import LogFile
from entrypoint.verdict.rank_logs import RankLog, by_label, is_labelled, rank_logs

OnProgress = Callable[[LogFile], None]


@dataclass(slots=True)
class _Tasks:
    """The ranks of one file that several have written to."""

    index: SignatureIndex
    name: str
    gatherers: dict[int, LogGatherer] = field(default_factory=dict)

    def feed(self, block: bytes) -> None:
        """Give each task its lines; what has no label was said by whoever started them, and is everybody's."""
        for rank, lines in by_label(block):
            if rank is None:
                for gatherer in self.gatherers.values():
                    gatherer.feed(lines)
            else:
                self.gatherers.setdefault(rank, LogGatherer(f"{self.name} (task {rank})", self.index)).feed(lines)


def read_logs(names: Sequence[str], index: SignatureIndex, on_progress: OnProgress) -> dict[int, LogEvidence]:
    """Return what the logs hold, by rank.

    Args:
        names: Paths, or ``-`` for the standard input.
        index: What lines can mean.
        on_progress: Told after each block which file is being read.

    Raises:
        SuperviseError: A file cannot be read at all.
    """
    found: dict[int, LogEvidence] = {}
    for log in rank_logs(names):
        for rank, evidence in _read_one(log, index, on_progress).items():
            found[rank if rank not in found else max(found) + 1] = evidence
    return _by_their_own_word(found)


def _by_their_own_word(found: dict[int, LogEvidence]) -> dict[int, LogEvidence]:
    """Return logs by the ranks that the engines say they have, where all of them do and no two say the same."""
    said = {log.node_rank: log for log in found.values() if log.node_rank is not None}
    return dict(sorted(said.items())) if len(said) == len(found) > 1 else found


def _read_one(log: RankLog, index: SignatureIndex, on_progress: OnProgress) -> dict[int, LogEvidence]:
    tasks = _Tasks(index, log.names[-1])
    gatherer = LogGatherer(log.names[-1], index)
    cuts: list[str] = []
    labelled: bool | None = None
    for name in log.names:
        file = LogFile(name)
        carrier: Carrier | None = None
        for number, carried in enumerate(file.blocks()):
            if not number:
                carrier = carrier_of(carried)
            block = carrier.strip(carried) if carrier else carried
            if labelled is None:
                labelled = is_labelled(block)
            (tasks if labelled else gatherer).feed(block)
            on_progress(file)
        cuts += [file.cut] if file.cut else []
    cut = "; ".join(cuts) or None
    if labelled:
        return {rank: each.evidence(cut=cut) for rank, each in sorted(tasks.gatherers.items())}
    return {log.rank: gatherer.evidence(cut=cut)}
