import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.engine import introspection
from entrypoint.engine.flags import FlagKind, FlagTable
from entrypoint.engine.introspection import introspect, introspection_command, parse_introspection
from entrypoint.outcome import ExitCode, SuperviseError

PYTHON = Path(sys.executable)
TIMEOUT_S = 60

ARGUMENTS = """
    import argparse

    print("a library that talks while it is imported")

    class DeprecatedStoreTrueAction(argparse.Action):
        def __init__(self, option_strings, dest, new_flag=None, **kwargs):
            self.new_flag = new_flag
            super().__init__(option_strings, dest, nargs=0, const=True, **kwargs)

    class DeprecatedStoreConstAction(argparse.Action):
        def __init__(self, option_strings, dest, const_value=None, **kwargs):
            self.const_value = const_value
            super().__init__(option_strings, dest, **kwargs)

    class DeprecatedAction(argparse.Action):
        def __init__(self, option_strings, dest, error_message=None, **kwargs):
            self.error_message = error_message
            super().__init__(option_strings, dest, nargs=0, **kwargs)

    def human_readable_int(word):
        return int(word)

    class ServerArgs:
        @staticmethod
        def add_cli_args(parser):
            import json
            parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=1, help="Ranks. Many.")
            parser.add_argument("--trust-remote-code", action="store_true")
            parser.add_argument("--targets", nargs="+", choices=["b", "a"])
            parser.add_argument("--paths", nargs="*")
            parser.add_argument("--sum", nargs="?", const="all", metavar="KIND")
            parser.add_argument("--backend", choices={"z", "y"})
            parser.add_argument("--level", type=int, choices=range(3))
            parser.add_argument("--size", type=human_readable_int, help="In JSON, e.g. 'x'.")
            parser.add_argument("--overrides", type=json.loads)
            parser.add_argument("--tf32", action=argparse.BooleanOptionalAction, help="100% faster")
            parser.add_argument("--slow", action=DeprecatedStoreTrueAction, new_flag="--fast=never")
            parser.add_argument("--kernel", action=DeprecatedStoreConstAction, dest="mono", const_value=True)
            parser.add_argument("--gone", action=DeprecatedAction, error_message="Removed. Use --here instead.")
            parser.add_argument("--older", action="store_true", help="(Deprecated, use --newer) Old way.")
            parser.add_argument("--successor", help="Replaces the deprecated --older.")
            parser.add_argument("--hidden", help=argparse.SUPPRESS)
"""

Engine = Callable[..., dict[str, str]]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Return a function that puts a stand-in for sglang on a search path, and returns its environment."""

    def install(files: dict[str, str]) -> dict[str, str]:
        root = tmp_path / "packages"
        for name, content in {
            "sglang/__init__.py": "__version__ = '9.8.7'",
            "sglang/srt/__init__.py": "",
            **files,
        }.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(content))
        return {"PYTHONPATH": str(root), "PATH": os.environ["PATH"]}

    return install


@pytest.fixture
def table(engine: Engine) -> FlagTable:
    return introspect(PYTHON, engine({"sglang/srt/server_args.py": ARGUMENTS}), TIMEOUT_S)


def refusal(
    environment: dict[str, str],
    python: Path = PYTHON,
    timeout_s: float = TIMEOUT_S,
    code: ExitCode = ExitCode.CONFIGURATION,
) -> SuperviseError:
    """Return the error of an introspection that must fail."""
    with pytest.raises(SuperviseError) as caught:
        introspect(python, environment, timeout_s)
    assert caught.value.code is code
    return caught.value


def test_the_engines_flags_are_found_although_its_libraries_print(table: FlagTable):
    assert table.version == "9.8.7"
    assert table.python_version.startswith("3.")
    assert [flag.spellings[0] for flag in table.flags][:2] == ["--tp-size", "--trust-remote-code"]


def test_help_is_no_flag_of_a_server(table: FlagTable):
    assert table.find("--help") is None


def test_a_flag_keeps_all_spellings_its_type_and_the_first_sentence_of_its_help(table: FlagTable):
    flag = table.find("--tensor-parallel-size")
    assert (flag.spellings, flag.dest, flag.type_name, flag.help) == (
        ("--tp-size", "--tensor-parallel-size"),
        "tp_size",
        "int",
        "Ranks.",
    )


def test_an_abbreviation_in_the_help_is_not_the_end_of_a_sentence(table: FlagTable):
    assert table.find("--size").help == "In JSON, e.g. 'x'."


@pytest.mark.parametrize(
    ("flag", "kind"),
    [
        ("--tp-size", FlagKind.ONE),
        ("--trust-remote-code", FlagKind.BARE),
        ("--targets", FlagKind.SEVERAL),
        ("--paths", FlagKind.ANY),
        ("--sum", FlagKind.OPTIONAL),
        ("--slow", FlagKind.BARE),
        ("--kernel", FlagKind.ONE),
    ],
)
def test_the_kind_says_how_many_words_follow(table: FlagTable, flag: str, kind: FlagKind):
    assert table.find(flag).kind is kind


@pytest.mark.parametrize(
    ("flag", "name"), [("--backend", "str"), ("--size", "human_readable_int"), ("--overrides", "json")]
)
def test_the_type_is_named_after_what_converts_the_word(table: FlagTable, flag: str, name: str):
    assert table.find(flag).type_name == name


def test_choices_keep_their_order_and_sets_are_sorted(table: FlagTable):
    assert table.find("--targets").choices == ("b", "a")
    assert table.find("--backend").choices == ("y", "z")
    assert table.find("--level").choices == ("0", "1", "2")
    assert table.find("--tp-size").choices is None


def test_a_flag_and_its_negation_are_two_flags_of_one_destination(table: FlagTable):
    assert table.destinations(["--tf32"]) == {"tf32": ("true",)}
    assert table.destinations(["--no-tf32"]) == {"tf32": ("false",)}


def test_constants_are_kept(table: FlagTable):
    assert table.destinations(["--sum", "--kernel", "amd"]) == {"sum": ("all",), "mono": ("true",)}


def test_deprecation_is_seen_in_the_class_and_in_the_help(table: FlagTable):
    assert (table.find("--slow").deprecated, table.find("--slow").replacement) == (True, "--fast=never")
    assert (table.find("--older").deprecated, table.find("--older").replacement) == (True, "--newer")


def test_a_flag_that_replaces_a_deprecated_one_is_not_deprecated(table: FlagTable):
    assert not table.find("--successor").deprecated


def test_a_retired_flag_names_what_replaces_it(table: FlagTable):
    assert (table.find("--gone").retired, table.find("--gone").replacement) == (True, "--here")
    assert not table.find("--slow").retired


def test_plug_ins_are_loaded_before_the_flags_are_asked_for(engine: Engine):
    plugins = "def load_plugins():\n    import sglang\n    sglang.EXTRA = ['--from-plugin']\n"
    arguments = """
        import sglang
        class ServerArgs:
            @staticmethod
            def add_cli_args(parser):
                parser.add_argument(*sglang.EXTRA)
    """
    environment = engine({"sglang/srt/server_args.py": arguments, "sglang/srt/plugins.py": plugins})
    assert introspect(PYTHON, environment, TIMEOUT_S).find("--from-plugin") is not None


def test_modules_beside_the_script_do_not_shadow_the_engines(engine: Engine):
    arguments = """
        import checkpoint
        class ServerArgs:
            @staticmethod
            def add_cli_args(parser):
                parser.add_argument(checkpoint.FLAG)
    """
    environment = engine({"sglang/srt/server_args.py": arguments, "checkpoint.py": "FLAG = '--own'"})
    assert introspect(PYTHON, environment, TIMEOUT_S).find("--own") is not None


def test_an_interpreter_without_sglang_says_so(tmp_path: Path):
    error = refusal({"PYTHONPATH": str(tmp_path)})
    assert error.message == f"{PYTHON} cannot import sglang: ModuleNotFoundError: No module named 'sglang'."
    assert "engine.python" in error.remedy


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("raise ImportError('libamdhip64.so: cannot open shared object file')", "ImportError: libamdhip64.so: cannot"),
        ("raise SystemExit('no device')", "SystemExit: no device"),
        ("raise RuntimeError('first line\\nlast line')", "last line"),
        ("raise RuntimeError('x' * 100_000)", "xxx"),
    ],
)
def test_an_engine_that_fails_to_import_shows_the_last_line(engine: Engine, module: str, reason: str):
    error = refusal(engine({"sglang/srt/server_args.py": module}))
    assert "cannot import sglang" in error.message
    assert reason in error.message
    assert len(error.message) < 1000


def test_a_broken_plug_in_is_not_taken_for_an_old_engine_without_plug_ins(engine: Engine):
    files = {"sglang/srt/server_args.py": ARGUMENTS, "sglang/srt/plugins.py": "import not_installed"}
    assert "not_installed" in refusal(engine(files)).message


def test_an_engine_whose_parser_cannot_be_built_says_so(engine: Engine):
    module = "class ServerArgs:\n    @staticmethod\n    def add_cli_args(parser):\n        raise KeyError('qwen')\n"
    assert (
        "cannot build its argument parser: KeyError: 'qwen'"
        in refusal(engine({"sglang/srt/server_args.py": module})).message
    )


def test_a_signal_while_importing_is_named(engine: Engine):
    module = "import os\nos.kill(os.getpid(), 11)\n"
    assert (
        "was ended by SIGSEGV while importing sglang" in refusal(engine({"sglang/srt/server_args.py": module})).message
    )


def test_a_foreign_exit_status_shows_the_last_line_of_standard_error(engine: Engine):
    module = "import os, sys\nprint('device lost', file=sys.stderr, flush=True)\nos._exit(9)\n"
    message = refusal(engine({"sglang/srt/server_args.py": module})).message
    assert message.endswith("ended with status 9 while importing sglang: device lost.")


def test_an_import_that_hangs_is_given_up(engine: Engine):
    environment = engine({"sglang/srt/server_args.py": "import threading\nthreading.Event().wait()\n"})
    error = refusal(environment, timeout_s=0.5, code=ExitCode.RETRY_ELSEWHERE)
    assert "within 0.5 s" in error.message


def test_a_missing_interpreter_is_named(tmp_path: Path):
    assert refusal({}, tmp_path / "python").message == f"The engine's Python {tmp_path / 'python'} does not exist."


def test_a_file_that_is_not_executable_is_named(tmp_path: Path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n")
    assert "may not be executed" in refusal({}, python).message


def test_a_directory_in_place_of_the_interpreter_is_named(tmp_path: Path):
    assert "is a directory" in refusal({}, tmp_path).message


def test_a_script_whose_own_interpreter_is_gone_is_not_called_missing(tmp_path: Path):
    python = tmp_path / "python"
    python.write_text("#!/nowhere/sh\n")
    python.chmod(0o755)
    assert "names an interpreter or loader that does not exist" in refusal({}, python).message


def test_a_file_of_another_format_is_named(tmp_path: Path):
    python = tmp_path / "python"
    python.write_bytes(b"\x7fELF but not really")
    python.chmod(0o755)
    assert "is no program that this machine can start" in refusal({}, python).message


@pytest.mark.parametrize("stdout", [b"", b"hello", b"\xff\xfe", b"{}", b'{"schema_version": 9}'])
def test_output_that_is_no_flag_table_is_refused(stdout: bytes):
    with pytest.raises(SuperviseError, match="printed something else"):
        parse_introspection(stdout, b"", 0, python=PYTHON)


def test_a_status_of_the_script_without_its_report_is_a_crash():
    with pytest.raises(SuperviseError, match="ended with status 3 while importing sglang: boom"):
        parse_introspection(b"not json", b"boom\n", 3, python=PYTHON)


def test_a_signal_without_a_name_is_given_by_number():
    with pytest.raises(SuperviseError, match="ended by signal 250"):
        parse_introspection(b"", b"", -250, python=PYTHON)


def test_the_command_honours_the_search_path_of_the_environment():
    command = introspection_command(PYTHON)
    assert command == [str(PYTHON), str(introspection.SCRIPT)]
    assert introspection.SCRIPT.is_file()


def test_the_script_prints_one_json_object_and_nothing_else(engine: Engine):
    environment = engine({"sglang/srt/server_args.py": ARGUMENTS})
    done = subprocess.run(introspection_command(PYTHON), env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout)["version"] == "9.8.7"
    assert b"a library that talks" in done.stderr


def test_a_source_tree_in_the_working_directory_counts_as_it_does_for_the_engine(engine: Engine):
    packages = engine({"sglang/srt/server_args.py": ARGUMENTS})["PYTHONPATH"]
    done = subprocess.run(introspection_command(PYTHON), env={}, cwd=packages, capture_output=True, check=False)
    assert done.returncode == 0
