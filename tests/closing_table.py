"""A pytest plugin: the closing table says which layers of tests ran, and which did not and why.

With ``REQUIRE_ALL=1`` in the environment a skipped test fails the run, so that nothing can go missing unnoticed.
A layer is the directory below ``tests``: unit, histories, process, real, slurm, container, vm.
"""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import pytest


@dataclass(slots=True)
class Layer:
    """What became of one layer's tests.

    Args:
        ran: Tests that ran to an outcome, whichever.
        deselected: Tests that the command line did not ask for.
        skipped: Skipped tests and modules by reason.
    """

    ran: int = 0
    deselected: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def sentence(self) -> str:
        """Say it in one line."""
        parts = [f"ran {self.ran}"]
        if self.deselected:
            parts.append(f"not asked for {self.deselected}")
        parts += [f"skipped {count}: {reason}" for reason, count in self.skipped.most_common()]
        return ", ".join(parts)


def layer_of(node_id: str) -> str:
    """Name the layer of a test or module.

    Args:
        node_id: Pytest's node id: a path relative to the root directory, then ``::`` and the test.
    """
    directories = PurePosixPath(node_id.partition("::")[0]).parts[:-1]
    return next((directory for directory in directories if directory != "tests"), "other")


def is_skip(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Tell a skip from an expected failure, which pytest reports as skipped, too."""
    return report.skipped and not hasattr(report, "wasxfail")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Take the reason out of a skip's report."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


class ClosingTable:
    """Collects outcomes by layer, prints them at the end, and turns skips into a failure where that is required.

    Args:
        require_all: Whether a skip fails the run.
    """

    def __init__(self, *, require_all: bool) -> None:
        self._require_all = require_all
        self._layers: dict[str, Layer] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a module that skipped itself as a whole."""
        if is_skip(report):
            self._layer(report.nodeid).skipped[reason_of(report)] += 1

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Count tests that the command line did not ask for."""
        for item in items:
            self._layer(item.nodeid).deselected += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: where it is skipped, where its setup fails, or where it was called."""
        if is_skip(report):
            self._layer(report.nodeid).skipped[reason_of(report)] += 1
        elif report.when == "call" or (report.when == "setup" and report.failed):
            self._layer(report.nodeid).ran += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that would have passed when something was skipped and everything is required."""
        if self._require_all and self._any_skipped() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table."""
        if not self._layers:
            return
        terminalreporter.section("layers")
        width = max(len(name) for name in self._layers)
        for name, layer in self._layers.items():
            terminalreporter.line(f"{name:<{width}}  {layer.sentence()}")
        if self._require_all and self._any_skipped():
            terminalreporter.line("REQUIRE_ALL is set and tests were skipped: the run has failed.", red=True)

    def _layer(self, node_id: str) -> Layer:
        return self._layers.setdefault(layer_of(node_id), Layer())

    def _any_skipped(self) -> bool:
        return any(layer.skipped for layer in self._layers.values())


def pytest_configure(config: pytest.Config) -> None:
    """Register the table for this run."""
    config.pluginmanager.register(ClosingTable(require_all=os.environ.get("REQUIRE_ALL", "0") not in ("", "0")))
