"""The Slurm step that this process is a task of, read from its environment.

Only what is true of the step counts: the job may hold more nodes than the step runs on (srun's manual, "output
environment variables").
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace

from entrypoint.node.hostlist import HostListError, expand
from entrypoint.outcome import ExitCode, SuperviseError


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """One task of a Slurm step.

    Attributes:
        job_id: Number of the job.
        step_id: Number of the step, or "batch" in the batch script itself.
        restart_count: How often the job was requeued.
        node_name: Slurm's name of this node.
        node_rank: Index of this node within the step.
        process_id: Rank of this task within the step.
        nodes_in_step: How many nodes the step runs on.
        job_end_unix_s: When the time limit ends the job, in seconds since 1970.
        hosts: Slurm's names of the step's nodes, in the order of their ranks; empty where a single node needs none.
    """

    job_id: int
    step_id: str
    restart_count: int
    node_name: str
    node_rank: int
    process_id: int
    nodes_in_step: int
    job_end_unix_s: int | None
    hosts: tuple[str, ...] = ()


def read_step(environ: Mapping[str, str]) -> SlurmStep | None:
    """Return the step that an environment describes, or None outside of one.

    A shell of ``salloc`` has a job and no task; it counts as outside.

    Raises:
        SuperviseError: If a variable is missing or no number, or the rank lies outside the step.
    """
    if "SLURM_JOB_ID" not in environ or "SLURM_PROCID" not in environ:
        return None
    in_step = "SLURM_STEP_ID" in environ
    step = SlurmStep(
        job_id=_number(environ, "SLURM_JOB_ID"),
        step_id=str(_number(environ, "SLURM_STEP_ID")) if in_step else "batch",
        restart_count=_number(environ, "SLURM_RESTART_COUNT", default=0),
        node_name=environ.get("SLURMD_NODENAME") or socket.gethostname(),
        node_rank=_number(environ, "SLURM_NODEID"),
        process_id=_number(environ, "SLURM_PROCID"),
        nodes_in_step=_number(environ, "SLURM_STEP_NUM_NODES") if in_step else 1,
        job_end_unix_s=_number(environ, "SLURM_JOB_END_TIME", default=0) or None,
    )
    if step.node_rank >= step.nodes_in_step:
        raise _unfit(f"SLURM_NODEID is {step.node_rank}, in a step of {step.nodes_in_step} node(s).")
    return replace(step, hosts=_hosts(environ, step.nodes_in_step)) if step.nodes_in_step > 1 else step


def _hosts(environ: Mapping[str, str], count: int) -> tuple[str, ...]:
    """Return the names of a step's nodes."""
    text = environ.get("SLURM_STEP_NODELIST", "").strip()
    try:
        hosts = expand(text)
    except HostListError as error:
        raise _unfit(f"SLURM_STEP_NODELIST: {error}.") from error
    if len(hosts) != count:
        raise _unfit(f"SLURM_STEP_NODELIST names {len(hosts)} node(s), in a step of {count}.")
    return hosts


def _number(environ: Mapping[str, str], name: str, *, default: int | None = None) -> int:
    """Return a variable that holds a whole number, not negative."""
    text = environ.get(name, "").strip()
    if not text and default is not None:
        return default
    if not text:
        raise _unfit(f"{name} is not set, although SLURM_JOB_ID and SLURM_PROCID are.")
    if not (text.isascii() and text.isdigit()):
        raise _unfit(f"{name} should be a whole number, and is {text!r}.")
    return int(text)


def _unfit(message: str) -> SuperviseError:
    """Return the error for an environment that describes no step."""
    return SuperviseError(
        message,
        remedy="Start this with srun, and let the container pass the environment on unchanged.",
        code=ExitCode.NODE_UNFIT,
    )
