"""Rules about the Slurm step, from its environment: flags of sbatch and srun that are serving knobs in disguise."""

import re
from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.outcome import ExitCode
from entrypoint.plan.rules.rule import Hit, Rule, RuleInput

_NOTES = "the operators' notes for MI300A, August 2026"
_SRUN = "srun's manual"
_RUN_LENGTH = re.compile(r"(\d+)(?:\(x\d+\))?")
NONE_ASKED = frozenset({"", "0"})


def _limited_memory(plan: RuleInput) -> Iterator[Hit]:
    for name in ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU"):
        given = plan.environ.get(name, "")
        if plan.step is not None and given not in NONE_ASKED:
            yield Hit(f"{name} is {given} (MB): the step's memory is limited, and the weights may not fit.")


def _several_tasks(plan: RuleInput) -> Iterator[Hit]:
    tasks = plan.environ.get("SLURM_STEP_TASKS_PER_NODE", "")
    most = max((int(count) for count in _RUN_LENGTH.findall(tasks)), default=1)
    if plan.step is not None and most > 1:
        yield Hit(f"The step runs {most} tasks on a node: each of them would start a server there.")


def _few_gpus(plan: RuleInput) -> Iterator[Hit]:
    given = plan.environ.get("SLURM_GPUS_ON_NODE", "")
    wanted = plan.number("tp_size")
    if plan.step is not None and given.isdigit() and wanted is not None and int(given) < wanted and not plan.on_cpu:
        yield Hit(
            f"The step has {given} GPU(s) on this node, and --tp-size wants {wanted:g}.",
            f"Give srun --gpus-per-node={wanted:g}.",
        )


def _survivors(plan: RuleInput) -> Iterator[Hit]:
    if plan.nodes > 1 and plan.environ.get("SLURM_KILL_BAD_EXIT") == "0":
        yield Hit("SLURM_KILL_BAD_EXIT is 0: when one node's task fails, the others stay until the job's time is over.")


def _other_account(plan: RuleInput) -> Iterator[Hit]:
    wanted, used = plan.environ.get("SBATCH_ACCOUNT", ""), plan.environ.get("SLURM_JOB_ACCOUNT", "")
    if wanted and used and wanted != used:
        yield Hit(f"The job runs on account {used}, and SBATCH_ACCOUNT says {wanted}.")


RULES = (
    Rule(
        "memory-limited",
        Severity.ERROR,
        "Slurm's memory request of the step",
        "A step's memory cgroup follows its share of CPUs: capped far below the node, the server dies while it loads.",
        _NOTES,
        "Give --mem=0 on the job and on the srun line.",
        _limited_memory,
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "tasks-several",
        Severity.ERROR,
        "tasks per node of the step",
        "One supervisor looks after one node; a second one would want the same ports and GPUs.",
        _SRUN,
        "Give srun --ntasks-per-node=1.",
        _several_tasks,
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "gpus-few",
        Severity.ERROR,
        "GPUs of the step on this node",
        "Every recipe here is tensor parallel over the four APUs of a node.",
        _NOTES,
        "Give srun --gpus-per-node=4.",
        _few_gpus,
        code=ExitCode.NODE_UNFIT,
    ),
    Rule(
        "survivors",
        Severity.WARNING,
        "--kill-on-bad-exit of a server that spans nodes",
        "One rank that fails leaves the others hanging in a collective, on paid nodes.",
        _SRUN,
        "Give srun --kill-on-bad-exit=1; 0 is for several replicas that shall survive each other.",
        _survivors,
    ),
    Rule(
        "account-differs",
        Severity.WARNING,
        "the job's account against SBATCH_ACCOUNT",
        "Jobs that name an account by hand split one project's work over several.",
        _NOTES,
        "Leave --account out of the script, and let SBATCH_ACCOUNT decide.",
        _other_account,
    ),
)
