"""Prepare SGLang's CPU engine and tiny models, outside the source tree, and print where they are.

    eval "$(python3 images/cpu/prepare.py)"       # SUPERVISE_ENGINE__PYTHON, SUPERVISE_MODEL__PATH

The first run installs about 3 GB of packages and trains a model; later runs only look. Everything lies below
``$CPU_ENGINE_HOME``, by default ``~/.cache/supervise-engine``::

    <hash>/            one engine, named by what it is made of: requirements, shim and Python version
        env/           its virtual environment, images/cpu/shim among its packages
        .complete      written last
    models/<family>-<hash of tiny_model.py>/

An interrupted run is taken up by the next one; of two at once, one works and the other waits.
"""

import argparse
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
REQUIREMENTS_WITHOUT_DEPENDENCIES = HERE / "requirements-nodeps.txt"
SHIM = HERE / "shim"
TRAINER = HERE / "tiny_model.py"
FAMILIES = ("qwen3", "kimi_k2", "glm", "gpt-oss")

HEARTBEAT_S = 15
"""How often a long phase says that it is still at work."""
TAIL_LINES = 20
"""How much of a failed command's output is shown."""


class PreparationError(Exception):
    """Something could not be prepared; the message says what and what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one engine and its models lie.

    Args:
        home: The directory that holds all engines and models.
        engine: This engine's directory, named by its ingredients.
        models: Directory per family.
    """

    home: Path
    engine: Path
    models: Mapping[str, Path]

    @property
    def python(self) -> Path:
        """The interpreter that can import sglang."""
        return self.engine / "env" / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The directory of the environment's installed packages."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.engine / "env" / "lib" / version / "site-packages"

    @property
    def stamp(self) -> Path:
        """The file that says that the engine is installed completely."""
        return self.engine / ".complete"

    def engine_is_complete(self) -> bool:
        """Tell whether the engine can be used; its base Python may have been removed since."""
        return self.stamp.exists() and self.python.exists()

    def missing(self) -> list[str]:
        """Name what is not prepared yet."""
        engine = [] if self.engine_is_complete() else [f"the engine in {self.engine}"]
        return engine + [f"the model {path}" for path in self.models.values() if not path.exists()]


def layout_for(families: Sequence[str], environment: Mapping[str, str]) -> Layout:
    """Derive all paths from the ingredients and the caller's environment."""
    home = home_directory(environment)
    trainer = digest([TRAINER])
    return Layout(
        home=home,
        engine=home / digest([REQUIREMENTS, REQUIREMENTS_WITHOUT_DEPENDENCIES, *sorted(SHIM.rglob("*.py"))]),
        models={family: home / "models" / f"{family}-{trainer}" for family in families},
    )


def home_directory(environment: Mapping[str, str]) -> Path:
    """Find where engines are kept."""
    if chosen := environment.get("CPU_ENGINE_HOME"):
        return Path(chosen).absolute()
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache).absolute() / "supervise-engine"


def digest(files: Sequence[Path]) -> str:
    """Hash files by name and content, together with the Python that the result is for."""
    ingredients = hashlib.sha256(f"{platform.python_version()} {platform.machine()}".encode())
    for file in files:
        ingredients.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return ingredients.hexdigest()[:12]


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the lock on everything below a home.

    The commands that are started meanwhile inherit the lock: should this process be killed, it is free when they have
    ended, too, and two installations never write into one environment.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another run prepares {home}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)
        yield


def install(layout: Layout) -> None:
    """Make the engine's environment; what an interrupted run left behind is reused."""
    tell(f"The CPU engine goes to {layout.engine}; the first time takes about two minutes and 3 GB.")
    layout.stamp.unlink(missing_ok=True)
    if not layout.python.exists():
        shutil.rmtree(layout.engine / "env", ignore_errors=True)
    pip = [str(layout.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    layout.engine.mkdir(parents=True, exist_ok=True)
    log = layout.engine / "install.log"
    phase("virtual environment", [sys.executable, "-m", "venv", str(layout.engine / "env")], log=log)
    phase("PyTorch and what SGLang imports", [*pip, "--requirement", str(REQUIREMENTS)], log=log)
    phase("SGLang", [*pip, "--no-deps", "--requirement", str(REQUIREMENTS_WITHOUT_DEPENDENCIES)], log=log)
    shutil.copytree(SHIM, layout.packages, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    layout.stamp.touch()


def train(layout: Layout, family: str, directory: Path) -> None:
    """Train one family's model; the trainer makes its directory appear complete or not at all."""
    directory.parent.mkdir(exist_ok=True)
    phase(
        f"tiny {family} model, trained in about 40 s",
        [str(layout.python), str(TRAINER), family, str(directory)],
        log=directory.with_suffix(".log"),
    )


def phase(name: str, command: Sequence[str], *, log: Path) -> None:
    """Run one long command quietly: its output goes to a log, its progress is told in seconds.

    Args:
        name: What the user reads.
        command: What is run, without the caller's own Python variables.
        log: Where its output goes; overwritten.

    Raises:
        PreparationError: When the command fails; carries the end of its output.
    """
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    # PyTorch's threads otherwise wait spinning, which on a machine that is busy with other work doubles the training.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    tell(f"  {name} ...")
    began = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            close_fds=False,
        )
        try:
            status = wait_audibly(process, name)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if status != 0:
        raise PreparationError(
            f"{name}: failed with exit status {status}: {shlex.join(command)}\n{tail(log)}\n"
            f"The whole output is in {log}. Run again after fixing the cause; finished parts are kept."
        )
    tell(f"  {name}: done in {time.monotonic() - began:.0f} s")


def wait_audibly(process: subprocess.Popen[bytes], name: str) -> int:
    """Wait for a process and say now and then that it is still running."""
    began = time.monotonic()
    while True:
        try:
            return process.wait(timeout=HEARTBEAT_S)
        except subprocess.TimeoutExpired:
            tell(f"  {name}: {time.monotonic() - began:.0f} s")


def tail(log: Path) -> str:
    """Return the last lines of a log, indented."""
    with log.open(errors="replace") as lines:
        return "".join(f"    {line}" for line in deque(lines, TAIL_LINES)).rstrip()


def tell(message: str) -> None:
    """Print on stderr: stdout is for the result alone."""
    print(message, file=sys.stderr, flush=True)


def as_shell(layout: Layout) -> str:
    """Render the result for ``eval``; the model is that of the first family."""
    variables = {
        "SUPERVISE_ENGINE__PYTHON": layout.python,
        "SUPERVISE_MODEL__PATH": next(iter(layout.models.values())),
    }
    return "\n".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())


def as_json(layout: Layout) -> str:
    """Render the result for programs, with all families."""
    models = {family: str(path) for family, path in layout.models.items()}
    return json.dumps({"python": str(layout.python), "models": models}, indent=2)


def prepare(layout: Layout) -> None:
    """Make whatever is missing."""
    if not layout.missing():
        return
    with only_one(layout.home):
        if not layout.engine_is_complete():
            install(layout)
        for family, directory in layout.models.items():
            if not directory.exists():
                train(layout, family, directory)


def require(layout: Layout) -> None:
    """Make nothing.

    Raises:
        PreparationError: When something is missing.
    """
    if missing := layout.missing():
        raise PreparationError("Not prepared: " + "; ".join(missing) + ".\nRun 'make engine' first.")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Prepare SGLang's CPU engine and tiny models; print where they are.")
    parser.add_argument(
        "--family", action="append", choices=FAMILIES, help="model to train; repeatable, by default qwen3 alone"
    )
    parser.add_argument(
        "--print-only", action="store_true", help="prepare nothing; exit with 1 when something is missing"
    )
    parser.add_argument(
        "--format", choices=("shell", "json"), default="shell", help="lines for eval (one model), or JSON (all of them)"
    )
    return parser.parse_args(arguments)


def main() -> int:
    """Prepare what is missing and print where everything is."""
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    layout = layout_for(arguments.family or ["qwen3"], os.environ)
    try:
        if arguments.print_only:
            require(layout)
        else:
            prepare(layout)
    except (PreparationError, OSError) as failure:
        tell(str(failure))
        return 1
    except KeyboardInterrupt:
        tell("Interrupted; the next run continues here.")
        return 130
    print(as_json(layout) if arguments.format == "json" else as_shell(layout))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
