"""A small emulated machine with a kernel of its own, whose control groups are of version 2 alone.

It needs no help from the processor and no disk: a Debian kernel, and an archive of files in memory that holds busybox,
Python with its standard library, what the project depends on, and what a test adds. It boots in seconds.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parts import debian
from parts.base import RECIPE, base_archive
from parts.cache import made_once

ROOT = Path(__file__).resolve().parents[2]
KERNEL_PACKAGE = "linux-image-cloud-amd64"
"""Names the present kernel package of Debian's suite, with the drivers of emulated machines alone."""
MEMORY_MIB = 1024
BOOT_S = 400
"""Seconds until an emulated machine must be done; it is ten times as slow as a real one."""
INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs tmp /tmp
ip link set lo up
cd /test
python3 main.py > /tmp/out 2>&1
status=$?
echo "=== begin"
cat /tmp/out
echo "=== end $status"
poweroff -f
"""
WANTED = re.compile(
    r"\./(bin|lib|lib64|usr/lib64(/.*)?|usr/bin/python3[^/]*|usr/lib/python3(\.\d+)?(/.*)?"
    r"|usr/lib/[^/]+/(ld-linux|lib(bz2|c|gcc_s|crypto|dl|expat|ffi|lzma|m|pthread|rt|ssl|util|uuid|z)\.so|lib(c|m)-).*)$"
)
"""Of the small Debian, Python and the libraries that its standard library uses."""
PYTHON_VERSION = "3.11"
"""Of the small Debian."""
PACKAGES = f"usr/local/lib/python{PYTHON_VERSION}/dist-packages"
"""Where its Python looks for packages, whatever the environment."""
PLATFORMS = ("manylinux_2_5", "manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
"""What runs on its C library."""
UNWANTED = re.compile(r"/python3(\.\d+)?/(test|idlelib|lib2to3|ensurepip|pydoc_data|dist-packages)/|\.a$")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended in the machine.

    Attributes:
        status: Its exit status.
        printed: What it printed.
    """

    status: int
    printed: str


def reason_against() -> str | None:
    """Return why there can be no machine here; None where there can."""
    return debian.reason_against("vm")


def run_in_machine(program: str, files: Mapping[str, Path]) -> Outcome:
    """Boot a machine, run a Python program as root in it, and return how it ended.

    Args:
        program: The program's text; it runs in a directory with the files.
        files: Files and directories by the names that they have there.

    Raises:
        AssertionError: The machine did not get that far.
    """
    with tempfile.TemporaryDirectory() as directory:
        tree, image = Path(directory) / "tree", Path(directory) / "image"
        _lay_out(tree / "test", program, files)
        with image.open("wb") as whole:  # the kernel unpacks one archive after the other
            for part in (_base_image(), _packages_image()):
                whole.write(part.read_bytes())
        _append(image, tree)
        console = _boot(image)
    found = re.search(r"=== begin\n(.*)=== end (\d+)\n", console, re.DOTALL)
    assert found is not None, f"no end was seen:\n{console}"
    return Outcome(int(found[2]), found[1])


def _boot(image: Path) -> str:
    """Return what the machine shows on its console until it turns itself off."""
    machine = ("-accel", "tcg", "-cpu", "max", "-m", str(MEMORY_MIB), "-smp", "2", "-nic", "none")
    shown = subprocess.run(
        [
            *("qemu-system-x86_64", *machine, "-nographic", "-no-reboot", "-kernel", str(_kernel())),
            *("-initrd", str(image), "-append", "console=ttyS0 quiet panic=-1"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BOOT_S,
        check=True,
    )
    return shown.stdout.decode(errors="replace").replace("\r\n", "\n")


def _lay_out(target: Path, program: str, files: Mapping[str, Path]) -> None:
    target.mkdir(parents=True)
    (target / "main.py").write_text(program)
    for name, source in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)
    # Where the two interpreters are of one version this saves the slow machine a lot; elsewhere it compiles by itself.
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(target)], check=True)


def _append(image: Path, tree: Path) -> None:
    """Add a directory's contents to an image."""
    names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
    with image.open("ab") as output:
        subprocess.run(
            ["cpio", "--quiet", "--create", "--format=newc", "--owner=0:0"],
            cwd=tree,
            input=names.encode(),
            stdout=output,
            check=True,
        )


def _base_image() -> Path:
    recipe = hashlib.sha256(repr((RECIPE, INIT, WANTED, UNWANTED)).encode()).hexdigest()[:12]
    return made_once(f"machine-{recipe}.cpio", _make_base_image)


def _packages_image() -> Path:
    dependencies: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    recipe = hashlib.sha256(repr((dependencies, PACKAGES, PLATFORMS)).encode()).hexdigest()[:12]
    return made_once(f"packages-{recipe}.cpio", lambda target: _make_packages_image(dependencies, target))


def _make_packages_image(dependencies: Sequence[str], target: Path) -> None:
    tree = target.with_name("tree")
    made_for = ("--python-version", PYTHON_VERSION, "--implementation", "cp", "--only-binary", ":all:")
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_x86_64")]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"),
            *("--target", str(tree / PACKAGES), *made_for, *platforms, *dependencies),
        ],
        check=True,
    )
    (tree / PACKAGES / "test.pth").write_text("/test\n")
    _append(target, tree)


def _make_base_image(target: Path) -> None:
    tree = target.with_name("tree")
    with tarfile.open(base_archive()) as archive:
        archive.extractall(tree, members=_wanted(archive), filter="tar")
    for name in ("proc", "sys", "dev", "tmp"):
        (tree / name).mkdir()
    shutil.copy2("/bin/busybox", tree / "usr/bin/busybox")
    init = tree / "init"
    init.write_text(INIT)
    init.chmod(0o755)
    _append(target, tree)


def _wanted(archive: Iterable[tarfile.TarInfo]) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        if WANTED.fullmatch(member.name) and not UNWANTED.search(member.name):
            yield member


def _kernel() -> Path:
    """Return the kernel of the suite of this machine's Debian."""
    package = _kernel_package()
    if package is None:
        debian.apt_get("update")
        package = _kernel_package()
    assert package is not None, f"apt does not know {KERNEL_PACKAGE}"
    return made_once(f"{package}.vmlinuz", lambda target: _fetch_kernel(package, target))


def _kernel_package() -> str | None:
    shown = subprocess.run(
        ["apt-cache", "depends", "--important", KERNEL_PACKAGE], capture_output=True, text=True, check=False
    )
    found = re.search(r"Depends: (linux-image-\S+)", shown.stdout)
    return found[1] if found else None


def _fetch_kernel(package: str, target: Path) -> None:
    workshop = target.parent
    subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package], cwd=workshop, check=True)
    (archive,) = workshop.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(archive), str(workshop / "unpacked")], check=True)
    (kernel,) = workshop.glob("unpacked/boot/vmlinuz-*")
    kernel.replace(target)
