"""The closing table, on small test suites of its own."""

from collections.abc import Mapping
from typing import Protocol

import pytest

ONE_PASSES_ONE_SKIPS = """
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="no engine here")
def test_skips():
    pass
"""
ALL_PASS = "def test_passes(): pass"
ONE_FAILS_AS_EXPECTED = """
import pytest

@pytest.mark.xfail(reason="known")
def test_fails():
    assert False
"""


class Run(Protocol):
    """Runs a suite given as source by layer."""

    def __call__(self, suite: Mapping[str, str], *arguments: str, require_all: str) -> pytest.RunResult: ...


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> Run:
    """Return a function that runs a suite in its own process, with the plugin."""
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath / "tests"))

    def run_suite(suite: Mapping[str, str], *arguments: str, require_all: str) -> pytest.RunResult:
        monkeypatch.setenv("REQUIRE_ALL", require_all)
        for layer, source in suite.items():
            directory = pytester.path / "tests" / layer
            directory.mkdir(parents=True)
            (directory / f"test_{layer}.py").write_text(source)
        return pytester.runpytest_subprocess("-p", "closing_table", "-p", "no:cacheprovider", *arguments)

    return run_suite


def test_each_layer_has_a_line_with_counts_and_reasons(run: Run):
    result = run({"unit": ALL_PASS, "real": ONE_PASSES_ONE_SKIPS}, require_all="0")

    result.stdout.fnmatch_lines(["*layers*", "real  ran 1, skipped 1: no engine here", "unit  ran 1"])
    assert result.ret == pytest.ExitCode.OK


def test_a_skip_fails_the_run_when_everything_is_required(run: Run):
    result = run({"real": ONE_PASSES_ONE_SKIPS}, require_all="1")

    result.stdout.fnmatch_lines(["REQUIRE_ALL is set and tests were skipped*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_run_without_skips_passes_when_everything_is_required(run: Run):
    result = run({"unit": ALL_PASS}, require_all="1")

    result.stdout.no_fnmatch_line("*REQUIRE_ALL*")
    assert result.ret == pytest.ExitCode.OK


def test_a_module_that_skips_itself_counts(run: Run):
    result = run({"real": 'import pytest\npytest.importorskip("no_such_module_here")'}, require_all="1")

    result.stdout.fnmatch_lines(["real  ran 0, skipped 1: could not import 'no_such_module_here'*"])
    assert result.ret != pytest.ExitCode.OK


def test_an_expected_failure_is_not_a_skip(run: Run):
    result = run({"unit": ONE_FAILS_AS_EXPECTED}, require_all="1")

    result.stdout.fnmatch_lines(["unit  ran 1"])
    assert result.ret == pytest.ExitCode.OK


def test_tests_that_were_not_asked_for_are_named_and_are_no_failure(run: Run):
    result = run({"unit": ALL_PASS, "real": ONE_PASSES_ONE_SKIPS}, "-k", "unit", require_all="1")

    result.stdout.fnmatch_lines(["real  ran 0, not asked for 2"])
    assert result.ret == pytest.ExitCode.OK


def test_a_broken_setup_counts_as_a_test_that_ran(run: Run):
    broken = "import pytest\n@pytest.fixture\ndef broken(): raise OSError\ndef test_it(broken): pass"
    result = run({"unit": broken}, require_all="0")

    result.stdout.fnmatch_lines(["unit  ran 1"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
