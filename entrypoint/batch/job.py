"""A job: how many servers of a profile on how many nodes of a site, for how long."""

from dataclasses import dataclass

from entrypoint.batch.time_limit import minutes_of
from entrypoint.edf.render import edf_name
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.readable import duration
from entrypoint.settings.profiles import Profile
from entrypoint.site.site import Site


@dataclass(frozen=True, slots=True)
class Job:
    """A job.

    Attributes:
        profile: What is served.
        site: The cluster.
        site_word: How the site is named on a command line: by its name or its file.
        nodes: Nodes of the job.
        minutes: Its time limit.
    """

    profile: Profile
    site: Site
    site_word: str
    nodes: int
    minutes: int

    @property
    def replicas(self) -> int:
        """How many servers run beside each other."""
        return self.nodes // self.profile.nodes

    @property
    def edf(self) -> str:
        """The EDF: what matters is how many nodes one server spans, not how many there are."""
        return edf_name(self.profile.name, self.profile.nodes)


def make_job(profile: Profile, site: Site, *, site_word: str, nodes: int | None, time: str | None) -> Job:
    """Return a job.

    Args:
        profile: What is served.
        site: The cluster.
        site_word: How the site is named on a command line.
        nodes: Nodes; by default those of one server. A multiple means several servers.
        time: Time limit as sbatch takes it; by default the site's usual one.

    Raises:
        SuperviseError: The nodes do not suffice or do not divide, or the time is more than the site gives.
    """
    job = Job(
        profile,
        site,
        site_word,
        nodes=profile.nodes if nodes is None else nodes,
        minutes=site.slurm.usual_minutes if time is None else minutes_of(time),
    )
    if job.nodes < 1 or job.nodes % profile.nodes:
        raise SuperviseError(
            f"A server of {profile.name} spans {profile.nodes} nodes, and {job.nodes} is no multiple of that.",
            remedy=f"Ask for {profile.nodes} nodes, or for a multiple: each {profile.nodes} serve by themselves.",
            code=ExitCode.CONFIGURATION,
        )
    if job.minutes > site.slurm.longest_minutes or job.minutes == 0:
        raise SuperviseError(
            f"{duration(job.minutes * 60)} is no time that {site.slurm.partition} gives.",
            remedy=f"Ask for at most {duration(site.slurm.longest_minutes * 60)}.",
            code=ExitCode.CONFIGURATION,
        )
    return job


def doubts(job: Job) -> tuple[str, ...]:
    """Return what may be unwise in a job, in sentences."""
    deadlines = job.profile.values.get("deadlines", {})
    ready_s = deadlines.get("ready_s") if isinstance(deadlines, dict) else None
    if isinstance(ready_s, int | float) and job.minutes * 60 <= ready_s:
        lasts, takes = duration(job.minutes * 60), duration(ready_s)
        return (f"The job lasts {lasts}, and {job.profile.name} may take {takes} to be ready.",)
    return ()
