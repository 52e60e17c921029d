"""The real engine, made to fail in one way after the other: each is told by its cause, and with the right exit code."""

import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
from broken_models import Break, broken, garbled, lacking_a_shard, saying, without
from harness import SUPERVISE, Supervised, wait_for
from stage import playing

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

AT_ONCE = 2
"""Engines at a time: each wants a processor while it starts."""
PATIENCE_S = 280
Provoke = Callable[[Supervised], None]
Played = Mapping[str, Future[Supervised]]


def nothing(_: Supervised) -> None:
    """Let it fail by itself."""


@dataclass(frozen=True)
class Failure:
    """A way to fail.

    Attributes:
        cause: What the report must call its kind.
        signature: What must explain it; empty where nothing known does.
        code: The run's exit code.
        phase: The run's state then.
        confidence: How sure the report must be.
        says: What its summary must hold.
        arguments: More words of the command line.
        how: How the model is broken; None leaves it whole.
        provoke: What is done to the run.
        command: What starts supervise.
    """

    cause: str
    signature: str
    code: int
    phase: str
    confidence: str = "certain"
    says: str = ""
    arguments: Sequence[str] = ()
    how: Break | None = None
    provoke: Provoke = nothing
    command: Sequence[str] = SUPERVISE


# What is done to a run


def printed(run: Supervised, text: str) -> bool:
    """Return whether the engine has printed a text."""
    logs = [path.read_text(errors="replace") for path in run.directory.glob("logs/*/server-0.log")]
    return any(text in log for log in logs)


def main_of(run: Supervised) -> psutil.Process:
    (main,) = run.named("warden.py").children()
    return main


def once_printed(text: str, name: str, number: int) -> Provoke:
    """Return what signals a process of the engine, as soon as it has printed a text."""

    def provoke(run: Supervised) -> None:
        wait_for(lambda: printed(run, text), PATIENCE_S, text)
        run.named(name).send_signal(number)

    return provoke


def once_there(name: str, number: int) -> Provoke:
    """Return what signals a process of the engine, as soon as it bears its name."""

    def found(run: Supervised) -> psutil.Process | None:
        try:
            return run.named(name)
        except (AssertionError, psutil.NoSuchProcess):
            return None

    def provoke(run: Supervised) -> None:
        wait_for(lambda: found(run), PATIENCE_S, name).send_signal(number)

    return provoke


def once_ready(number: int, name: str | None = None) -> Provoke:
    """Return what signals the engine's main process, or another one, while it serves."""

    def provoke(run: Supervised) -> None:
        run.wait_state("ready", PATIENCE_S)
        (run.named(name) if name else main_of(run)).send_signal(number)

    return provoke


def take_the_port(run: Supervised) -> None:
    """Take the engine's port once supervise has seen that it is free."""
    wait_for(lambda: run.state() == "starting", PATIENCE_S, "a start")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", run.engine_port))
        run.wait(PATIENCE_S)


def ignoring(*rules: str) -> tuple[str, ...]:
    """Return the words that let a run begin although its check finds an error."""
    return ("--rules.ignore", ",".join(rules))


FULL = 'mkdir tmp && mount -t tmpfs -o size=4k tmpfs tmp && export TMPDIR="$PWD/tmp" && exec "$@"'
WITHOUT_SPACE = ("unshare", "--mount", "sh", "-c", FULL, "sh", *SUPERVISE)
"""Starts supervise with a directory for temporary files that is full at once, which nobody else sees."""
BUILT_FOR_FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
LOADING, WARMING_UP = "Load weight begin", "Uvicorn running on"
FAILURES = {
    # The machine; first what takes longest: the engine asks the holder of its port for two minutes
    "the port taken after the check": Failure(*("port", "net.addr_in_use", 69, "loading"), provoke=take_the_port),
    "no space left for temporary files": Failure(*("storage", "storage.bus", 73, "starting"), command=WITHOUT_SPACE),
    # The command line
    "a value that is no choice": Failure(
        *("configuration", "arg.invalid_choice", 78, "starting"),
        says="the value 'fp7' of --dtype",
        arguments=("--engine.args.dtype", "fp7", *ignoring("flag-not-a-choice")),
    ),
    "a flag that is not known": Failure(
        *("configuration", "arg.unrecognized", 78, "starting"),
        says="does not know --enable-nonsense",
        arguments=(*ignoring("flag-unknown"), "--", "--enable-nonsense"),
    ),
    "a context too long": Failure(
        *("configuration", "arg.ctx_too_long", 78, "starting"),
        says="100000 is longer than the 8192 tokens",
        arguments=("--model.context_length", "100000"),
    ),
    "a memory fraction too low": Failure(
        *("configuration", "mem.min_viable", 78, "loading"),
        says="the floor is 0.0",
        arguments=(
            *("--engine.mem_fraction_static", "0.00001", "--engine.args.max-total-tokens", ""),
            *ignoring("fraction-below-floor"),
        ),
    ),
    # The checkpoint
    "a missing shard": Failure(
        *("checkpoint", "load.missing_shard", 78, "loading"),
        says="1 of the files that model.safetensors.index.json names",
        arguments=ignoring("model-shards"),
        how=lacking_a_shard,
    ),
    "garbled weights": Failure(
        *("checkpoint", "load.safetensors", 78, "loading"), arguments=ignoring("model-shards"), how=garbled
    ),
    "weights of another shape": Failure("checkpoint", "load.shape", 78, "loading", how=saying(hidden_size=256)),
    "no tokenizer": Failure(
        *("checkpoint", "load.tokenizer", 78, "starting"),
        arguments=ignoring("model-tokenizer"),
        how=without("tokenizer.json"),
    ),
    "an architecture that is not known": Failure(
        "configuration", "load.arch", 78, "starting", how=saying(architectures=["NobodysForCausalLM"])
    ),
    "a model with code of its own": Failure(
        *("configuration", "load.trust_remote", 78, "starting"),
        how=saying(model_type="nobodys", auto_map={"AutoConfig": "configuration_nobodys.Config"}),
    ),
    "another quantization than the checkpoint's": Failure(
        *("configuration", "load.quant_mismatch", 78, "starting"),
        arguments=("--engine.args.quantization", "awq"),
        how=saying(quantization_config=BUILT_FOR_FP8),
    ),
    "a model that is not here, and no network": Failure(
        *("checkpoint", "load.offline", 78, "starting"),
        arguments=("--model.path", "nobody/nothing-at-all", "--engine.env.HF_HUB_OFFLINE", "1"),
    ),
    # Processes
    "the scheduler killed while starting": Failure(
        *("unknown", "", 70, "starting", "unknown"),
        says="scheduler_0 ended with signal SIGKILL",
        provoke=once_there("sglang::scheduler", signal.SIGKILL),
    ),
    "the scheduler killed while loading": Failure(
        *("unknown", "", 70, "loading", "unknown"),
        says="scheduler_0 ended with signal SIGKILL",
        provoke=once_printed(LOADING, "sglang::scheduler", signal.SIGKILL),
    ),
    "the scheduler killed in the warm-up": Failure(
        *("unknown", "", 70, "engine-up", "unknown"),
        says="scheduler_0 ended with signal SIGKILL",
        provoke=once_printed(WARMING_UP, "sglang::scheduler", signal.SIGKILL),
    ),
    "the scheduler killed while serving": Failure(
        *("unknown", "", 70, "ready", "unknown"),
        says="scheduler_0 ended with signal SIGKILL",
        provoke=once_ready(signal.SIGKILL, "sglang::scheduler"),
    ),
    "the scheduler crashed while serving": Failure(
        *("engine", "proc.segfault", 70, "ready"), provoke=once_ready(signal.SIGSEGV, "sglang::scheduler")
    ),
    "the detokenizer killed while serving": Failure(
        *("unknown", "", 70, "ready", "unknown"),
        says="detokenizer ended with signal SIGKILL",
        provoke=once_ready(signal.SIGKILL, "sglang::detokenizer"),
    ),
    "the main process told to stop by somebody else": Failure(
        *("unknown", "", 70, "ready", "unknown"),
        says="somebody sent SIGTERM to the engine itself",
        provoke=once_ready(signal.SIGTERM),
    ),
    # Standstill
    "the scheduler stopped while loading": Failure(
        *("hang", "", 75, "loading"),
        says="stalled while loading",
        arguments=("--deadlines.load_s", "6", "--deadlines.stall_s", "4"),
        provoke=once_printed(LOADING, "sglang::scheduler", signal.SIGSTOP),
    ),
    "the scheduler stopped in the warm-up": Failure(
        *("hang", "run.warmup", 75, "engine-up", "probable"),
        arguments=("--engine.env.SGLANG_WARMUP_TIMEOUT", "6"),
        provoke=once_printed(WARMING_UP, "sglang::scheduler", signal.SIGSTOP),
    ),
    "the scheduler stopped while serving": Failure(
        *("hang", "", 75, "ready"),
        says="its scheduler finished no step",
        arguments=("--watch.stall_s", "20"),
        provoke=once_ready(signal.SIGSTOP, "sglang::scheduler"),
    ),
}
"""Failures of the engine itself: what the check would have refused is let through."""


@dataclass(frozen=True)
class Place:
    """Where the runs are put up.

    Attributes:
        directory: Each run gets a directory in it.
        model: The tiny model, whole.
        start: Makes a run in a directory, with more arguments.
    """

    directory: Path
    model: Path
    start: Callable[..., Supervised]

    def run_of(self, name: str) -> Supervised:
        """Return the run of a failure, not started yet."""
        failure = FAILURES[name]
        directory = self.directory / name.replace(" ", "-")
        directory.mkdir()
        model = (
            broken(self.model, self.directory / f"model-{directory.name}", failure.how) if failure.how else self.model
        )
        run = self.start(directory, "--model.path", str(model), "--restart.max", "0", *failure.arguments)
        run.command = failure.command
        return run


def can_play(name: str) -> bool:
    return FAILURES[name].command is SUPERVISE or os.geteuid() == 0


def fail(name: str, run: Supervised) -> Supervised:
    with run:
        FAILURES[name].provoke(run)
        run.wait(PATIENCE_S)
        run.assert_nothing_left()
    return run


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tiny_models: Mapping[str, str],
    start_in: Callable[..., Supervised],
) -> Iterator[Played]:
    """The runs of the failures that are asked for."""
    asked = [item.callspec.params["name"] for item in request.session.items if item.path == request.path]
    place = Place(tmp_path_factory.mktemp("failures"), Path(tiny_models["qwen3"]), start_in)
    stories = {name: partial(fail, name, place.run_of(name)) for name in asked if can_play(name)}
    with playing(stories, at_once=AT_ONCE) as runs:
        yield runs


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_of_the_real_engine_is_told_by_its_cause(played: Played, name: str):
    if not can_play(name):
        pytest.skip("only root can mount a file system that is full")
    run, failure = played[name].result(), FAILURES[name]
    report = run.report()
    told = (report["cause"], report["signature"], report["confidence"], report["phase"])
    assert told == (failure.cause, failure.signature, failure.confidence, failure.phase), report["summary"]
    assert run.process.returncode == report["code"] == failure.code
    assert failure.says in report["summary"]
