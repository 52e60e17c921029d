"""A site: partition, file systems, container and fabric of one cluster, as frozen data.

Another cluster is another file of this shape; nothing of any cluster stands in code.
"""

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(gt=0)]


class Part(BaseModel):
    """A table of a site's file: frozen, and closed against unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class EnvironmentRow(Part):
    """One variable of a container's environment.

    Attributes:
        name: Its name.
        value: Its value, in which ``${VAR}`` of the host may stand.
        reason: Why, in one clause.
        fixed: Another value is an error, not a choice.
        only_between_nodes: On one node the variable itself is an error.
    """

    name: str
    value: str
    reason: str
    fixed: bool = False
    only_between_nodes: bool = False


class Scheduler(Part):
    """What Slurm is like there.

    Attributes:
        cluster: What ``SLURM_CLUSTER_NAME`` says.
        partition: The partition of the nodes meant.
        gpus_per_node: GPUs of a node.
        cpus_per_node: Logical processors of a node.
        longest_minutes: The partition's time limit.
        usual_minutes: The limit to ask for.
        kill_wait_s: Seconds from SIGTERM to SIGKILL.
        end_signal_s: Seconds before the end at which a warning signal is asked for.
        account: Whether a job has to name an account.
        requeues: How often one job is put back into the queue.
        client_flags: What srun is told for a client beside the server.
    """

    cluster: str
    partition: str
    gpus_per_node: Count
    cpus_per_node: Count
    longest_minutes: Count
    usual_minutes: Count
    kill_wait_s: Count = 30
    end_signal_s: Count = 120
    account: Literal["required", "none"] = "required"
    requeues: Annotated[int, Field(ge=0)] = 2
    client_flags: tuple[str, ...] = ("--overlap",)

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        if self.usual_minutes > self.longest_minutes:
            raise ValueError("usual_minutes is more than longest_minutes")
        return self


class Container(Part):
    """What every container gets.

    Attributes:
        variables: Variables that the cluster defines, for EDFs to use.
        workdir: The working directory.
        logs: Where runs keep their directories, at the same place on host and in the container.
        mounts: ``SOURCE:DESTINATION`` of each bind mount.
        image_rocm: Major release of ROCm in the images, where their names do not say it.
        env: Variables of every container.
    """

    variables: frozenset[str] = frozenset()
    workdir: str
    logs: str
    mounts: tuple[str, ...]
    image_rocm: Count | None = None
    env: tuple[EnvironmentRow, ...] = ()


class FileSystem(Part):
    """A file system.

    Attributes:
        path: Where it is mounted.
        kind: What it is.
        what: What is known of it, in one clause.
        purge_days: Days without a read after which files are removed; None where they stay.
        for_weights: Models are kept here: it is the fastest for many large reads.
    """

    path: PurePosixPath
    kind: Literal["lustre", "nfs", "gpfs", "local"]
    what: str
    purge_days: Count | None = None
    for_weights: bool = False


class Fabric(Part):
    """The network between nodes, and what a container needs to use it.

    Attributes:
        interfaces: Its network interfaces.
        netstack_root: Where the artifacts with the fabric's libraries lie, each below its version.
        annotations: Annotations of an EDF that turn the hooks on.
        env: Variables of a server on several nodes.
    """

    interfaces: tuple[str, ...] = ()
    netstack_root: PurePosixPath | None = None
    annotations: dict[str, str] = Field(default_factory=dict)
    env: tuple[EnvironmentRow, ...] = ()


class Site(Part):
    """One cluster.

    Attributes:
        name: How it is called here: its file's name.
        title: What it is, in one line.
        verified: When and from what the values are known.
        slurm: Its scheduler.
        container: Its containers.
        filesystems: Its file systems.
        fabric: Its network.
    """

    name: str
    title: str
    verified: str
    slurm: Scheduler
    container: Container
    filesystems: tuple[FileSystem, ...] = ()
    fabric: Fabric = Fabric()

    def filesystem_of(self, path: str) -> FileSystem | None:
        """Return the file system that a path lies on, as far as the site's file knows it."""
        place = PurePosixPath(path)
        holding = [system for system in self.filesystems if place.is_relative_to(system.path)]
        return max(holding, key=lambda system: len(system.path.parts), default=None)
