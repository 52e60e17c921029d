"""Bad input: each ends with one clear message, its remedy and its exit code, and what only looks bad does not."""

import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from io import RawIOBase
from pathlib import Path
from typing import NoReturn

import pytest
from harness import SUPERVISE, Supervised

pytestmark = pytest.mark.process
Start = Callable[..., Supervised]
WIDE = {"COLUMNS": "400"}
"""A terminal on which no cell of a table is broken."""


def told(run: Supervised, code: int) -> str:
    """Let a run end, and return what it says; it ends with this code, and its stdout is left to results."""
    with run:
        assert run.wait() == code, run.stderr()
    said = run.stderr()
    assert "Traceback" not in said
    assert run.stdout() == ""
    return said


def assert_refused(run: Supervised, code: int, *words: str) -> None:
    """Let a run end; it says all this, and nothing of the engine was started."""
    said = told(run, code)
    for word in words:
        assert word in said
    assert "starting" not in said


def assert_accepted(run: Supervised) -> None:
    """Nothing speaks against a run, as ``supervise check`` sees it."""
    run.arguments = ["check", *run.arguments]
    with run:
        assert run.wait() == 0, run.stdout() + run.stderr()
    assert "error" not in run.stdout()


def assert_serves(run: Supervised) -> None:
    """The run becomes ready, and stops as asked."""
    with run:
        run.wait_state("ready")
        run.signal(signal.SIGTERM)
        assert run.wait() == 0


def in_shell(run: Supervised, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a run's directory and environment; ``"$@"`` is the run's command."""
    return subprocess.run(
        ["sh", "-c", script, "sh", *SUPERVISE, *run.arguments],
        env=dict(run.environment),
        cwd=run.directory,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )


def write(run: Supervised, name: str, text: str, mode: int = 0o644) -> Path:
    """Write a file where a run starts."""
    file = run.directory / name
    file.write_text(text)
    file.chmod(mode)
    return file


# Settings


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        pytest.param(
            "[engine]\nport = 1\nmem_fraction_static = 0,3\n",
            ("supervise.toml:3: not valid TOML", "3 | mem_fraction_static = 0,3\n", "^", "Correct that line"),
            id="syntax",
        ),
        pytest.param(
            "[engine]\n\nprot = 1\n",
            ("supervise.toml:3: engine.prot: there is no such setting", "Did you mean engine.port?"),
            id="unknown-key",
        ),
        pytest.param(
            "[drian]\ntimeout_s = 1\n", ("supervise.toml:1: drian: there is no such", "Did you mean drain?"), id="table"
        ),
        pytest.param(
            '[health]\nport = "many"\n',
            ("supervise.toml:2: health.port: expected a whole number from 1 to 65535, got 'many'",),
            id="type",
        ),
        pytest.param(
            '[engine]\nhost = "a\\u0000b"\n', ("supervise.toml:2: engine.host: the text holds a NUL",), id="nul"
        ),
        pytest.param(
            '[engine.env]\n"A=B" = "c"\n', ("supervise.toml:2: engine.env.A=B: no environment variable",), id="variable"
        ),
        pytest.param(
            "[engine]\nprot = 1\n[drian]\n", ("The settings have 2 problems", "engine.prot", "drian"), id="two-problems"
        ),
    ],
)
def test_a_settings_file_is_refused_at_the_line_that_is_wrong(start_fake: Start, toml: str, words: Sequence[str]):
    run = start_fake()
    run.environment = {name: value for name, value in run.environment.items() if name != "SUPERVISE_HEALTH__PORT"}
    write(run, "supervise.toml", toml)
    assert_refused(run, 78, *words)


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (
            ["--engine.prot", "1"],
            {},
            ("--engine.prot: engine.prot: there is no such setting", "Did you mean --engine.port?"),
        ),
        ([], {"SUPERVISE_ENGINE__PROT": "1"}, ("SUPERVISE_ENGINE__PROT", "Did you mean SUPERVISE_ENGINE__PORT?")),
        ([], {"SUPERVISE_\udcff": "1"}, ("SUPERVISE_\\udcff", "there is no such setting", "Remove it")),
        (["--engine.port", "x"], {}, ("--engine.port", "expected a whole number from 1 to 65535, got 'x'")),
        ([], {"SUPERVISE_ENGINE__PORT": "99999"}, ("SUPERVISE_ENGINE__PORT", "from 1 to 65535, got '99999'")),
        (["--profile", "tinny"], {}, ("no packaged profile 'tinny'", "Did you mean 'tiny'?", "apertus70b, glm53")),
        (["--config", "nix.toml"], {}, ("nix.toml: the file does not exist", "correct --config")),
        (["--config", "."], {}, ("this is a directory, not a file", "Name the TOML file")),
    ],
)
def test_a_wrong_setting_is_refused_where_it_was_made(
    start_fake: Start, arguments: Sequence[str], environment: dict[str, str], words: Sequence[str]
):
    assert_refused(start_fake(*arguments, environment=environment), 78, *words)


def test_settings_of_every_layer_that_are_right_are_taken(start_fake: Start):
    run = start_fake(
        "--config", "mine.toml", "--prove.max_tokens", "512", environment={"SUPERVISE_DRAIN__TIMEOUT_S": "9"}
    )
    write(run, "mine.toml", '[engine.env]\nLEVEL = "a=b"\n[engine.args]\npage_size = 16\n')
    assert_accepted(run)


# Secrets


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine.api_key_file", "nix"], ("engine.api_key_file: 'nix' does not exist", "Create the file")),
        (["--engine.api_key_file", "empty"], ("'empty' is empty", "Write the key into it")),
        (["--engine.api_key_file", "."], ("'.' cannot be read: Is a directory", "Name a file")),
        (["--engine.api_key_file", "two"], ("'two' holds more than one line", "Leave the key alone")),
        (
            ["--engine.api_key_file", "good", "--engine.api_key", "0th3r"],
            ("engine.api_key and engine.api_key_file are both set", "Set one of them only"),
        ),
        (["--", "--api-key", "s3cret"], ("--api-key stands in the command line", "Set engine.api_key_file")),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_and_never_shown(
    start_fake: Start, arguments: Sequence[str], words: Sequence[str]
):
    run = start_fake(*arguments)
    for name, text in {"empty": "\n", "two": "s3cret\nkey\n", "good": "s3cret\n"}.items():
        write(run, name, text, 0o600)
    assert_refused(run, 78, *words)
    assert "s3cret" not in run.stderr()
    assert "0th3r" not in run.stderr()


def test_a_key_in_a_file_is_taken(start_fake: Start):
    run = start_fake("--engine.api_key_file", "good")
    write(run, "good", "s3cret\n", 0o600)
    assert_accepted(run)


# The model


def test_a_model_that_is_not_there_names_the_one_that_is(start_fake: Start, fake_model: Path):
    run = start_fake("--model.path", str(fake_model.with_name("modle")))
    assert_refused(run, 78, f"{fake_model.parent} holds no modle", f"such as {fake_model}.")


def without_template(model: Path) -> None:
    (model / "tokenizer_config.json").write_text("{}")


def without_config(model: Path) -> None:
    (model / "config.json").unlink()


def without_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").unlink()


def with_pointer(model: Path) -> None:
    (model / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:a\nsize 12\n")


def with_missing_shard(model: Path) -> None:
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (without_config, ("it has no config.json", "Give the directory that holds config.json")),
        (with_pointer, ("Git LFS pointers instead of weights", "model.safetensors", "git lfs pull")),
        (with_missing_shard, ("1 of 2 weight files are missing", "model-00002-of-00002", "Copy or download")),
        (without_tokenizer, ("holds no tokenizer", "Copy the tokenizer's files")),
        (without_template, ("holds no chat template", "Set chat-template in [engine.args]")),
    ],
)
def test_a_model_that_is_not_complete_is_refused_by_what_it_lacks(
    start_fake: Start, fake_model: Path, damage: Callable[[Path], None], words: Sequence[str]
):
    damage(fake_model)
    assert_refused(start_fake(), 78, str(fake_model), *words)


@pytest.mark.parametrize(
    ("damage", "arguments"),
    [
        (without_template, ["--engine.args.chat-template", "mine.jinja"]),
        (without_template, ["--", "--chat-template", "mine.jinja"]),
        (without_tokenizer, ["--engine.args.tokenizer-path", "elsewhere/tokenizer"]),
        (with_pointer, ["--rules.ignore", "model-shards"]),
    ],
)
def test_what_a_model_lacks_may_come_from_elsewhere(
    start_fake: Start, fake_model: Path, damage: Callable[[Path], None], arguments: Sequence[str]
):
    damage(fake_model)
    assert_accepted(start_fake(*arguments))


def test_a_name_that_no_client_could_say_is_refused(start_fake: Start, fake_model: Path):
    renamed = fake_model.rename(fake_model.with_name("m\udcff"))
    run = start_fake("--model.path", str(renamed), "--model.served_name", "", environment=WIDE)
    assert_refused(run, 78, "m\\udcff', which is no UTF-8 text", "Set model.served_name")


def test_a_path_of_any_bytes_is_served_under_a_plain_name(start_fake: Start, fake_model: Path):
    renamed = fake_model.rename(fake_model.with_name("m\udcff"))
    assert_serves(start_fake("--model.path", str(renamed), "--model.served_name", "tiny"))


# Flags of the engine


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--engine.attention_backend", "tritn"],
            ("--attention-backend does not know 'tritn'; it takes triton,", "Write triton, if that is meant."),
        ),
        (["--engine.args.page-size", "many"], ("--page-size takes a whole number, and 'many' is none",)),
        (["--engine.args.page-sise", "1"], ("has no flag --page-sise", "Write --page-size, if that is meant.")),
        (["--", "--nix", "2"], ("has no flag --nix", "Leave it out.")),
        (["--", "--p", "2"], ("--p could mean --port, --pp-size,", "Write the flag in full")),
        (["--", "--page-size"], ("--page-size needs a value",)),
    ],
)
def test_a_flag_that_the_engine_would_refuse_is_refused_before_it_starts(
    start_fake: Start, arguments: Sequence[str], words: Sequence[str]
):
    assert_refused(start_fake(*arguments), 78, *words)


def test_flags_known_from_an_earlier_run_are_refused_at_once(start_fake: Start):
    assert_accepted(start_fake())
    run = start_fake("--engine.args.page-size", "many", environment=WIDE)
    assert_refused(run, 78, "'many' is none", "nothing was started: 1 error (exit code 78)", "rules.ignore")
    assert not (run.directory / "logs").exists()


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (["--pp", "1"], ("--pp works only while no other flag begins like that", "Write --pp-size.")),
        (["--grpc-mode"], ("--grpc-mode is deprecated", "Write --smg-grpc-mode instead.")),
    ],
)
def test_a_flag_that_still_works_is_a_warning(start_fake: Start, flag: Sequence[str], words: Sequence[str]):
    run = start_fake("--", *flag)
    assert_serves(run)
    said = run.stderr()
    for word in words:
        assert word in said
    assert "! warning" in said


# Ports


@pytest.fixture
def taken(free_ports: Iterator[int]) -> Iterator[int]:
    """A port that this process listens on."""
    with socket.create_server(("127.0.0.1", next(free_ports))) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(("name", "owner"), [("engine", "the engine"), ("health", "the health endpoints")])
@pytest.mark.parametrize("command", [[], ["check"]])
def test_a_port_in_use_names_its_holder(start_fake: Start, taken: int, name: str, owner: str, command: Sequence[str]):
    run = start_fake(*command, f"--{name}.port", str(taken), environment=WIDE)
    with run:
        assert run.wait() == 69
    said = run.stdout() if command else run.stderr()
    assert f"Port {taken} on 127.0.0.1, wanted for {owner}, is taken by process {os.getpid()} (" in said
    assert f"Stop that process, or set {name}.port to a free port." in said


def test_one_port_for_engine_and_health_is_refused(start_fake: Start, free_ports: Iterator[int]):
    port = str(next(free_ports))
    run = start_fake("--engine.port", port, "--health.port", port, environment=WIDE)
    assert_refused(run, 78, f"both want port {port}", "Give health.port another number.")


@pytest.mark.parametrize("name", ["engine", "health"])
def test_an_address_that_is_none_of_this_node_names_the_setting_of_the_address(start_fake: Start, name: str):
    run = start_fake(f"--{name}.host", "192.0.2.1")
    assert_refused(run, 69, "192.0.2.1, wanted for the", "is no address of this node", f"{name}.host is the setting")


# Directories


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a file system in memory, with options; skips where that is not allowed."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        place = tmp_path / f"mounted{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("file systems may not be mounted here")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def read_only(mount: Callable[[str], Path]) -> Path:
    return mount("ro")


@pytest.fixture
def full(mount: Callable[[str], Path]) -> Path:
    place = mount("size=16k")
    with (place / "filling").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        fill(file)
    return place


def fill(file: RawIOBase) -> NoReturn:
    while True:
        file.write(b"x" * 4096)


@pytest.mark.parametrize("setting", ["logs.dir", "caches.shared", "caches.local"])
def test_a_file_in_the_way_of_a_directory_is_named(start_fake: Start, tmp_path: Path, setting: str):
    (tmp_path / "file").write_text("")
    run = start_fake(f"--{setting}", str(tmp_path / "file" / "x"))
    said = f"{tmp_path / 'file'} is not a directory"
    assert_refused(run, 73, said, f"Remove that file, or choose another directory with {setting}.")
    assert " more)" not in run.stderr(), "one layer is one finding, however many directories it has"


@pytest.mark.parametrize("setting", ["logs.dir", "caches.shared", "caches.local"])
def test_a_directory_that_is_read_only_is_named(start_fake: Start, read_only: Path, setting: str):
    run = start_fake(f"--{setting}", str(read_only / "x"))
    remedy = f"Choose a directory on a writable file system with {setting}."
    assert_refused(run, 73, str(read_only / "x"), "it lies on a read-only file system", remedy)


@pytest.mark.parametrize("setting", ["logs.dir", "caches.shared"])
def test_a_disk_that_is_full_at_the_start_is_named(start_fake: Start, full: Path, setting: str):
    run = start_fake(f"--{setting}", str(full))
    assert_refused(run, 73, str(full), "its file system is full", "Free space there, or choose another", setting)


def test_check_finds_every_directory_that_a_run_could_not_use(start_fake: Start, tmp_path: Path):
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "x")
    run = start_fake("check", "--logs.dir", place, "--caches.local", place, environment=WIDE)
    with run:
        assert run.wait() == 73
    assert run.stdout().count("is not a directory") == 2


def test_a_dry_run_needs_nothing_writable(start_fake: Start, read_only: Path):
    place = str(read_only)
    environment = {"HOME": place, "SUPERVISE_CACHES__SHARED": place, "READ_ONLY": place}
    done = in_shell(start_fake("--dry-run", environment=environment), 'cd "$READ_ONLY" && exec "$@"')
    assert (done.returncode, done.stdout[:4]) == (0, "env ")
    assert "-m sglang.launch_server" in done.stdout


# The engine's Python


def script(text: str, mode: int = 0o755) -> Callable[[Path], None]:
    """Return a function that writes an interpreter."""

    def make(python: Path) -> None:
        python.write_text(text)
        python.chmod(mode)

    return make


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda _: None, ("does not exist",), id="missing"),
        pytest.param(Path.mkdir, ("is a directory",), id="directory"),
        pytest.param(script("", 0o644), ("may not be executed",), id="not-executable"),
        pytest.param(script("hello\n"), ("is no program that this machine can start",), id="text"),
        pytest.param(script("#!/nix/python\n"), ("names an interpreter or loader that does not exist",), id="loader"),
        pytest.param(
            script('#!/bin/sh\nunset PYTHONPATH\nexec python3 -S "$@"\n'),
            ("cannot import sglang: ModuleNotFoundError: No module named 'sglang'.",),
            id="without-sglang",
        ),
        pytest.param(
            script("#!/bin/sh\necho no libamdhip64.so >&2\nkill -SEGV $$\n"),
            ("was ended by SIGSEGV while importing sglang: no libamdhip64.so",),
            id="crash",
        ),
    ],
)
def test_a_python_that_cannot_run_the_engine_is_refused(
    start_fake: Start, tmp_path: Path, make: Callable[[Path], None], words: Sequence[str]
):
    python = tmp_path / "engine-python"
    make(python)
    assert_refused(start_fake("--engine.python", str(python)), 78, str(python), *words, "Set engine.python to")
    assert "flags went unchecked" not in (tmp_path / "run0" / "stderr").read_text()


@pytest.mark.parametrize("command", [[], ["check"]])
def test_an_import_that_hangs_is_given_up_and_named(start_fake: Start, tmp_path: Path, command: Sequence[str]):
    python = tmp_path / "engine-python"
    script("#!/bin/sh\nexec sleep 1000\n")(python)
    run = start_fake(*command, "--engine.python", str(python), "--deadlines.check_s", "1", environment=WIDE)
    with run:
        assert run.wait(10) == 75
    said = run.stdout() + run.stderr()
    assert f"{python} did not tell the engine's flags within 0.8 s" in said
    assert "raise deadlines.check_s" in said


# The engine's ends


def test_an_engine_that_ends_at_once_is_quoted(start_fake: Start):
    words = "RuntimeError: no HIP GPUs are available"
    run = start_fake(ends_at="start", ends_by="exit 3", last_words=words)
    said = told(run, 70)
    assert "ended by itself while starting" in said
    assert "with exit code 3" in said
    assert f"Its log says: {words}" in said
    assert f"Read the end of {run.run_directory / 'server-0.log'}." in said


def test_an_engine_that_gives_no_reason_is_given_none(start_fake: Start):
    assert "Its log does not say why." in told(start_fake(ends_at="start", ends_by="exit 1"), 70)


def test_an_engine_that_never_becomes_ready_names_the_phase_and_the_limit(start_fake: Start):
    said = told(start_fake("--deadlines.ready_s", "2", hangs_at="warmup"), 75)
    assert "was not ready in time: it was still engine-up" in said
    assert "raise deadlines.ready_s" in said


def test_an_engine_that_stalls_names_the_phase_its_last_sign_and_the_limit(start_fake: Start):
    said = told(start_fake("--deadlines.load_s", "0.5", "--deadlines.stall_s", "0.5", hangs_at="load"), 75)
    assert "stalled while loading" in said
    assert "the last sign was 0 of 4 shards loaded" in said
    assert "raise deadlines.load_s" in said


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"calls_as_text": True}, ("The tool call came as text: the tool-call parser 'qwen'",)),
        ({"thinks": False}, ("the reasoning parser is 'qwen3'", "set prove.reasoning = false")),
    ],
)
def test_a_self_check_that_fails_names_the_parser(start_fake: Start, fault: dict[str, bool], words: Sequence[str]):
    said = told(start_fake(**fault), 76)
    for word in ("The self-check failed.", *words):
        assert word in said


# The scheduler


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"SLURM_JOB_ID": "twelve", "SLURM_PROCID": "0"}, ("SLURM_JOB_ID should be a whole number, and is 'twelve'",)),
        ({"SLURM_JOB_ID": "1", "SLURM_PROCID": "0"}, ("SLURM_NODEID is not set",)),
    ],
)
def test_a_scheduler_that_makes_no_sense_is_refused(
    start_fake: Start, environment: dict[str, str], words: Sequence[str]
):
    assert_refused(start_fake(environment=environment), 69, *words, "Start this with srun")


def test_a_job_without_a_task_is_no_step(start_fake: Start):
    assert_accepted(start_fake(environment={"SLURM_JOB_ID": "1"}))


# Commands


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dry-urn"], ("there is no option --dry-urn; did you mean --dry-run?", "Try: supervise --help")),
        (["--port", "1"], ("no option --port; a setting is named with its section: --engine.port or --health.port",)),
        (["--page-size", "1"], ("no option --page-size", "flags of the engine go after a bare --")),
        (["run", "run"], ("run is one word too many",)),
        (["wait", "--timeuot", "1", "x"], ("did you mean --timeout?", "Try: supervise wait --help")),
        (["wait"], ("required: WHERE", "Try: supervise wait --help")),
        (["chekc"], ("chekc is no command of supervise", "Did you mean supervise check?", "The commands are: run,")),
        (["status", "."], (". is neither a URL nor the directory of a run: it holds no plan.json", "Give http://")),
        (["status", "nix"], ("nix is neither a URL nor the directory of a run: there is nothing of this name",)),
        (["drain", "http://"], ("http:// is not the URL of a run", "Give it as http://HOST:PORT")),
        (["status", "x", "--engine.port", "1"], ("settings such as --engine.port belong to run and check",)),
    ],
)
def test_a_command_line_that_cannot_be_understood_says_what_was_meant(
    start_fake: Start, arguments: Sequence[str], words: Sequence[str]
):
    assert_refused(start_fake(*arguments), 64, *words)


def test_waiting_for_a_directory_that_is_no_run_ends(start_fake: Start):
    assert_refused(start_fake("wait", "."), 64, "it holds no plan.json")


def test_waiting_for_what_is_not_there_says_so_at_once(start_fake: Start):
    said = told(start_fake("wait", "nix", "--timeout", "1.5"), 75)
    assert "supervise: waiting for nix to appear" in said
    assert "Waited long enough: nix has not appeared" in said


@pytest.mark.parametrize("command", ["run", "check", "verify", "wait", "status", "drain", "profiles"])
def test_every_command_explains_itself(start_fake: Start, command: str):
    run = start_fake(command, "--help")
    with run:
        assert run.wait() == 0
    assert run.stderr() == ""
    named = "supervise [COMMAND]" if command == "run" else f"supervise {command} "
    assert run.stdout().startswith(f"usage: {named}")
    settings = "--SECTION.KEY VALUE" in run.stdout()
    assert settings == (command in {"run", "check"})


# Streams


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--dry-run"], 0), (["check"], 0), (["--help"], 0), (["--engine.prot", "1"], 78)]
)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(start_fake: Start, arguments: Sequence[str], code: int, closed: str):
    done = in_shell(start_fake(*arguments), f'"$@" {closed}')
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_run_serves_with_all_its_streams_closed(start_fake: Start):
    run = start_fake()
    run.command = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *SUPERVISE)
    assert_serves(run)


@pytest.mark.parametrize("arguments", [["--dry-run"], ["--dry-run", "--format", "json"], ["--help"], ["profiles"]])
def test_a_reader_who_leaves_is_no_fault(start_fake: Start, arguments: Sequence[str]):
    done = in_shell(start_fake(*arguments), '{ "$@"; echo "code $?" >&2; } | head -n 1')
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.endswith("code 0\n")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("arguments", [["--dry-run"], ["--dry-run", "--format", "json"], ["profiles"]])
def test_output_that_cannot_be_written_is_told(start_fake: Start, arguments: Sequence[str]):
    done = in_shell(start_fake(*arguments), '"$@" > /dev/full')
    assert done.returncode == 73
    assert done.stderr.endswith(
        "supervise: The output cannot be written: No space left on device.\nFree space there, or send it elsewhere.\n"
    )


def test_a_message_that_cannot_be_written_leaves_the_exit_code(start_fake: Start):
    assert in_shell(start_fake("--engine.prot", "1"), '"$@" 2> /dev/full').returncode == 78


# Surroundings


@pytest.mark.parametrize("arguments", [["--dry-run"], ["check"], []])
def test_a_working_directory_that_is_gone_is_named(start_fake: Start, arguments: Sequence[str]):
    done = in_shell(start_fake(*arguments), 'mkdir gone && cd gone && rmdir ../gone && exec "$@"')
    assert done.returncode == 73
    assert "The working directory cannot be determined: No such file or directory." in done.stderr
    assert "Change to a directory that exists" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_home_it_is_the_one_that_the_system_knows(start_fake: Start):
    run = start_fake("--dry-run")
    done = in_shell(run, 'unset HOME; exec "$@"')
    assert done.returncode == 0
    assert f"HF_HOME={Path(pwd.getpwuid(os.getuid()).pw_dir) / '.cache' / 'huggingface'} " in done.stdout


def test_variables_of_any_bytes_are_passed_on(start_fake: Start):
    assert_serves(start_fake(environment={"ODD": "\udcff\udcfe", "LC_ALL": "C"}))


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""As hostile as a locale can be: Python's own remedies are off."""


def test_tables_and_words_of_any_script_are_told_in_any_locale(start_fake: Start):
    run = start_fake("check", "--config", "mine.toml", environment={**ASCII, **WIDE})
    write(run, "mine.toml", '[engine]\nattention_backend = "Zürich, 漢"\n')
    with run:
        assert run.wait() == 78, run.stderr()
    assert "does not know 'Zürich, 漢'; it takes triton" in run.stdout()
    assert "│" in run.stdout()
    assert run.stderr() == ""


def test_a_name_in_any_script_is_served_in_the_c_locale(start_fake: Start):
    run = start_fake("--model.served_name", "Zürich, 漢", environment={"LC_ALL": "C"})
    assert_serves(run)
    assert "Serving Zürich, 漢 at" in run.stderr()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--model.path", "X"], 78),
        (["--model.path", "/X/X"], 78),
        (["--engine.python", "X"], 78),
        (["--engine.host", "X"], 69),
        (["--engine.args.X", "1"], 78),
        (["--engine.prot", "X"], 78),
        (["--engine.X", "1"], 78),
        (["--engine.port", "X"], 78),
        (["--engine.api_key_file", "X"], 78),
        (["--logs.dir", "X"], 73),
        (["--caches.shared", "X"], 73),
        (["--profile", "X"], 78),
        (["--config", "X"], 78),
        (["--X", "1"], 64),
        (["X"], 64),
        (["status", "X"], 64),
        (["wait", "X", "--timeout", "0.1"], 75),
    ],
)
def test_values_without_measure_are_told_in_a_few_lines(start_fake: Start, arguments: Sequence[str], code: int):
    said = told(start_fake(*(word.replace("X", "x" * 50_000) for word in arguments)), code)
    assert 0 < len(said) < 4000


def test_a_command_longer_than_the_system_takes_is_refused(start_fake: Start):
    run = start_fake("--config", "long.toml")
    write(run, "long.toml", f'[engine.env]\nLONG = "{"x" * 300_000}"\n')
    said = told(run, 78)
    assert "Argument list too long" in said
