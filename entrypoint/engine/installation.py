"""Which engine is at hand, read from files alone: nothing is started, so that a dry run may ask."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from entrypoint.engine.paths import expanded

IMAGE_PYTHON: Final = Path("/opt/venv/bin/python")
"""Where SGLang's images keep the engine's interpreter (the virtual environment of the ROCm images, 0.5.x)."""

_DISTRIBUTION: Final = re.compile(r"(?P<name>[^-]+)-(?P<version>\d[^-]*)\.(dist|egg)-info")
_VERSIONED_PYTHON: Final = re.compile(r"python3\.\d+")
_SYSTEM_PACKAGES_SHARED: Final = re.compile(
    r"^include-system-site-packages\s*=\s*true\s*$", re.IGNORECASE | re.MULTILINE
)


def find_python(
    configured: Path | None, *, path_env: str, candidates: Sequence[Path] = (IMAGE_PYTHON,), python_path_env: str = ""
) -> Path:
    """Return the Python that runs the engine.

    Args:
        configured: The interpreter that the user named; taken as it is.
        path_env: The environment's PATH.
        candidates: Interpreters that are taken when they exist, the first one first.
        python_path_env: The environment's PYTHONPATH, where the engine may lie as well.

    Returns:
        The configured interpreter; else the first candidate that exists; else the first python3 on PATH that has
        sglang among its packages; else the first candidate although it is missing, so that whatever needs it says so
        by its name, and a dry run on a machine without an engine still shows the image's command.
    """
    if configured is not None:
        return expanded(configured)
    on_path = (
        Path(directory) / "python3"
        for directory in path_env.split(os.pathsep)
        if directory and installed_version(Path(directory) / "python3", python_path_env=python_path_env)
    )
    present = (python for python in (*candidates, *on_path) if os.access(python, os.X_OK))
    return next(present, candidates[0])


def installed_version(python: Path, *, python_path_env: str = "") -> str | None:
    """Return the version of sglang that an interpreter would import, or None where there is none to be seen.

    Args:
        python: The interpreter; a virtual environment's is a link, and it is the link's place that counts.
        python_path_env: The environment's PYTHONPATH, which is searched first, as Python does.
    """
    for directory in (*_python_path(python_path_env), *package_directories(python)):
        versions = sorted(_versions_in(directory))
        if versions:
            return versions[-1]
        if (directory / "sglang" / "__init__.py").is_file():
            return None  # a bare source tree shadows what follows, and its version is written nowhere
    return None


def distribution_versions(python: Path, names: Sequence[str], *, python_path_env: str = "") -> dict[str, str]:
    """Return the version of each of some distributions that an interpreter would import, where it is installed.

    Args:
        python: The interpreter.
        names: Distributions, in lower case with hyphens.
        python_path_env: The environment's PYTHONPATH, which is searched first.
    """
    found: dict[str, str] = {}
    for directory in (*_python_path(python_path_env), *package_directories(python)):
        for name, version in _distributions_in(directory):
            if name in names:
                found.setdefault(name, version)
    return found


def package_directories(python: Path) -> tuple[Path, ...]:
    """Return the directories in which an interpreter finds installed packages, in its order."""
    name = Path(os.path.realpath(python)).name  # unlike Path.resolve, it ends a circle of links quietly
    version = name if _VERSIONED_PYTHON.fullmatch(name) else "python3.*"
    found = (
        directory
        for prefix in _prefixes(python)
        for library in ("lib", "lib64")
        for release in (version, "python3")  # Debian's own packages lie in python3, without a minor version
        for kind in ("site-packages", "dist-packages")
        for directory in sorted(prefix.glob(f"{library}/{release}/{kind}"))
    )
    return tuple(dict.fromkeys(found))


def _prefixes(python: Path) -> Iterator[Path]:
    """Yield the installation prefixes that count for an interpreter, following its links where they do.

    The links of a virtual environment lead out of it, to an interpreter whose packages count only where
    ``pyvenv.cfg`` says so; other links are mere names.
    """
    step = python.absolute()
    for _ in range(_LINKS_AT_MOST):
        prefix = step.parent.parent
        if prefix == Path("/usr"):
            yield prefix / "local"  # Debian: pip of the system's Python installs there
        yield prefix
        if _is_closed_environment(prefix) or not os.path.islink(step):  # noqa: PTH114  # takes any name
            return
        step = step.parent / step.readlink()


_LINKS_AT_MOST: Final = 16
"""Far more links than any installation chains; a loop of links ends here."""


def _is_closed_environment(prefix: Path) -> bool:
    """Return whether a prefix is a virtual environment that does not see its base's packages."""
    try:
        configuration = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return _SYSTEM_PACKAGES_SHARED.search(configuration) is None


def _python_path(value: str) -> tuple[Path, ...]:
    """Return the directories of PYTHONPATH."""
    return tuple(Path(entry) for entry in value.split(os.pathsep) if entry)


def _versions_in(directory: Path) -> Iterator[str]:
    """Yield the versions of sglang whose metadata lie in a directory."""
    return (version for name, version in _distributions_in(directory) if name == "sglang")


def _distributions_in(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield name and version of what is installed in a directory; an unreadable one has nothing to offer."""
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208  # sorted, and never followed
    except OSError:
        return
    for name in names:
        match = _DISTRIBUTION.fullmatch(name)
        if match:
            yield match["name"].lower().replace("_", "-"), match["version"]
