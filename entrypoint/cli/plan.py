"""``supervise plan``: on how many nodes a model can be served, with which memory fraction, and with which pool."""

import json
import sys

from rich.console import Console
from rich.table import Table

from entrypoint.cli.parse import Call
from entrypoint.cli.prepare import prepare
from entrypoint.plan.budget.budget import Budget, Fit
from entrypoint.plan.budget.facts import MemoryPlan
from entrypoint.plan.budget.memory import GIB
from entrypoint.plan.budget.render import data, sentences, why


def perform(call: Call) -> int:
    """Show the memory budget for several numbers of nodes; return 0."""
    plan = prepare(call).plan.memory
    if call.options.format == "json":
        sys.stdout.write(json.dumps(data(plan), indent=2) + "\n")
    else:
        _show(plan)
    return 0


def _show(plan: MemoryPlan) -> None:
    console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
    if plan.budgets:
        console.print(_table(plan))
        for _, budget in sorted(plan.budgets.items()):
            console.print(f"{_count(budget)}: {why(budget)}")
        console.print()
    for sentence in sentences(plan):
        console.print(sentence)


def _table(plan: MemoryPlan) -> Table:
    table = Table()
    for title in ("nodes", "fit", "weights", "floor", "ceiling", "pool", "ratio"):
        table.add_column(title, justify="left" if title == "fit" else "right", no_wrap=True)
    for _, budget in sorted(plan.budgets.items()):
        table.add_row(*_cells(budget))
    return table


def _cells(budget: Budget) -> tuple[str, ...]:
    pool = budget.pool()
    return (
        str(budget.nodes),
        budget.fit.value,
        f"{budget.node.weights_bytes / GIB:.0f} GiB",
        f"{budget.floor:.3f}",
        "none" if budget.fit is Fit.IMPOSSIBLE else f"{budget.ceiling:.3f}",
        f"{pool.tokens / 1e6:.2f} M" if pool.tokens else "none",
        "-" if budget.ratio is None else f"{budget.ratio:.2f}",
    )


def _count(budget: Budget) -> str:
    return "1 node" if budget.nodes == 1 else f"{budget.nodes} nodes"
