"""The Debian packages that layers of tests need; as a program, it installs those that are missing where it may.

It runs before the project's own environment is there, so that it needs nothing but Python.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

IMAGE_TOOLS = ("mmdebstrap",)
PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "slurm": ("slurmctld", "slurmd", "slurm-client", "munge", "iproute2"),
        "container": ("podman", "buildah", "runc", *IMAGE_TOOLS),
        "scripts": ("shellcheck",),
        "vm": ("qemu-system-x86", "busybox-static", "cpio", *IMAGE_TOOLS),
        "aiter": ("hipcc", "libamdhip64-dev", "g++"),
        "extensions": ("g++", "ninja-build"),
    }
)
"""Packages by layer."""
POLICY = Path("/usr/sbin/policy-rc.d")
"""What tells Debian whether an installed service may be started."""
LOG_LINES = 10


def missing(layer: str) -> list[str]:
    """Return the packages of a layer that are not installed."""
    wanted = PACKAGES[layer]
    if shutil.which("dpkg-query") is None:
        return list(wanted)
    shown = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package}\n", *wanted],
        capture_output=True,
        text=True,
        check=False,  # it fails where it does not know one of them
    )
    installed = {line[2:].strip() for line in shown.stdout.splitlines() if line.startswith("ii")}
    return [name for name in wanted if name not in installed]


def reason_against(layer: str) -> str | None:
    """Return why a layer that needs root and packages cannot run; None where it can."""
    if os.geteuid() != 0:
        return "needs root"
    lacking = missing(layer)
    return f"needs the Debian packages {' '.join(lacking)}" if lacking else None


@contextmanager
def services_off() -> Iterator[None]:
    """Keep the services of packages that are installed from being started."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def apt_get(*words: str) -> None:
    """Run apt-get quietly.

    Raises:
        subprocess.CalledProcessError: It failed; what it printed comes along.
    """
    subprocess.run(
        ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", *words],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )


def main() -> int:
    """Install what is missing, or say why not; a layer that lacks something says so itself later."""
    lacking = sorted({name for layer in PACKAGES for name in missing(layer)})
    if not lacking or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return 0
    print(f"Installing Debian packages for tests: {' '.join(lacking)}.", file=sys.stderr)  # noqa: T201
    try:
        with services_off():
            apt_get("update")
            apt_get("install", "--yes", "--no-install-recommends", *lacking)
    except subprocess.CalledProcessError as error:
        last = "\n".join(error.stdout.splitlines()[-LOG_LINES:])
        print(f"That failed, so that tests which need them are skipped:\n{last}", file=sys.stderr)  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
