"""Podman and runc with a store of their own, and an image of the project in it."""

import hashlib
import os
import shutil
import ssl
import subprocess
import tempfile
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from parts import debian
from parts.base import RECIPE, base_archive
from parts.cache import parts_home
from parts.memory_group import remove_empty

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "tests/container/Containerfile"
PROJECT_FILES = ("pyproject.toml", "README.md", "LICENSE", "entrypoint")
BASE_IMAGE = f"localhost/base:{RECIPE}"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
CONTAINERS_CONF = """\
[containers]
# Podman's own defaults are higher than what a root without all privileges may ask for.
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{run}/libpod"
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{store}"
runroot = "{run}/storage"
"""


@dataclass(frozen=True, slots=True)
class Containers:
    """A store of images and whatever runs from it.

    Args:
        environment: What makes podman and buildah use it.
        label: What tells the containers that are made here from those of others with the same store.
    """

    environment: Mapping[str, str]
    label: str

    def run(self, *words: str) -> str:
        """Return what a command of podman or buildah prints.

        Raises:
            AssertionError: It failed; what it printed comes along.
        """
        done = subprocess.run(
            words, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def make_image(self) -> str:
        """Make the image of the project as it is now and return its id; what has not changed is kept from before."""
        if BASE_IMAGE not in self.run("podman", "images", "--format", "{{.Repository}}:{{.Tag}}").split():
            self.run("podman", "import", "--quiet", str(base_archive()), BASE_IMAGE)
        certificates = ssl.get_default_verify_paths().cafile or CERTIFICATES
        with tempfile.TemporaryDirectory() as directory:
            context, made = Path(directory) / "context", Path(directory) / "id"
            _lay_out(context)
            self.run(
                *("buildah", "bud", "--isolation", "chroot", "--layers", "--build-arg", f"BASE={BASE_IMAGE}"),
                # Packages come from where this machine gets them, and that may be vouched for by its own authorities.
                *("--volume", f"{certificates}:{CERTIFICATES}:ro"),
                *("--iidfile", str(made), "--file", str(CONTAINERFILE), str(context)),
            )
            image = made.read_text().strip()
        self.run("podman", "image", "prune", "--force", "--filter", "until=24h")
        return image

    def command(self, image: str, *options: str) -> tuple[str, ...]:
        """Return the command that runs an image; its arguments follow."""
        podman = [f"{name}={value}" for name, value in self.environment.items()]
        return ("env", *podman, "podman", "run", "--rm", "--label", self.label, *options, image)

    def end(self) -> None:
        """End every container that was made here."""
        left = self.run("podman", "ps", "--all", "--quiet", "--filter", f"label={self.label}").split()
        if left:
            self.run("podman", "rm", "--force", "--time", "0", *left)


def reason_against() -> str | None:
    """Return why no container can run here; None where one can."""
    return debian.reason_against("container")


@contextmanager
def containers() -> Iterator[Containers]:
    """Open the store, which lasts; whatever was started from it ends here."""
    home = parts_home() / "containers"
    home.mkdir(exist_ok=True)
    # Podman keeps here what ends with the machine; each store needs a place of its own.
    run = Path("/run") / f"supervise-parts-{hashlib.sha256(bytes(home)).hexdigest()[:8]}"
    (home / "containers.conf").write_text(CONTAINERS_CONF.format(run=run))
    (home / "storage.conf").write_text(STORAGE_CONF.format(store=home / "store", run=run))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CONTAINERS_CONF": str(home / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(home / "storage.conf"),
    }
    opened = Containers(environment, f"test={uuid.uuid4().hex}")
    try:
        yield opened
    finally:
        opened.end()
        for parent in Path("/sys/fs/cgroup").glob("*/libpod_parent"):
            remove_empty(parent)


def _lay_out(context: Path) -> None:
    """Copy what the image is made of."""
    project = context / "project"
    project.mkdir(parents=True)
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (context / "requirements.txt").write_text("".join(f"{line}\n" for line in dependencies))
    for name in PROJECT_FILES:
        source, target = ROOT / name, project / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
