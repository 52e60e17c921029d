"""Rules about the site: what its scheduler wants of a job."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.outcome import ExitCode
from entrypoint.plan.rules.on_node import OnNode
from entrypoint.plan.rules.rule import Hit, Rule


def _other_partition(seen: OnNode) -> Iterator[Hit]:
    if seen.site is None or seen.partition is None or seen.on_cpu:
        return
    wanted = seen.site.slurm.partition
    if seen.partition != wanted:
        yield Hit(
            f"The job runs in partition {seen.partition}, and the nodes of {seen.site.name} that this is for are in "
            f"{wanted}.",
            f"Give sbatch --partition={wanted}.",
        )


def _no_account(seen: OnNode) -> Iterator[Hit]:
    if seen.site is None or seen.in_step or seen.on_cpu or seen.site.slurm.account != "required":
        return
    if seen.account is None:
        yield Hit(f"No account is named, and {seen.site.name} refuses jobs without one.")


RULES: tuple[Rule[OnNode], ...] = (
    Rule(
        "partition-other",
        Severity.ERROR,
        "the job's partition against the site's",
        "The default partition may be other hardware, of which nothing here is true.",
        "the site's file",
        "Name the site's partition.",
        _other_partition,
        "site.name",
        ExitCode.NODE_UNFIT,
    ),
    Rule(
        "account-unset",
        Severity.WARNING,
        "SBATCH_ACCOUNT, before a job is submitted",
        "The site's scheduler refuses a job without an account, and a name in the script splits one project's work.",
        "the site's file",
        "export SBATCH_ACCOUNT=ACCOUNT before sbatch.",
        _no_account,
    ),
)
