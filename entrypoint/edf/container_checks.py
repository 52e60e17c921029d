"""Checks of the container itself: image, entry point, working directory, mounts."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from entrypoint.edf.document import Edf
from entrypoint.edf.presets import IMAGE_TREES
from entrypoint.edf.surroundings import Surroundings
from entrypoint.findings import Finding, Severity
from entrypoint.site.site import Site

_MOST_FIELDS = 3
_PATH_STARTS = ("/", "./")
_UNKNOWN = "${"
"""What begins a variable that is known only where the job runs."""


def container_findings(edf: Edf, site: Site, surroundings: Surroundings) -> Iterator[Finding]:
    """Yield what is wrong with the container."""
    yield from _image(edf.image or "")
    yield from _entrypoint(edf)
    if edf.workdir and not edf.workdir.startswith((*_PATH_STARTS, _UNKNOWN)):
        yield Finding(
            "edf-relative-path",
            Severity.ERROR,
            f"workdir: {edf.workdir} is no path; a relative one begins with ./.",
            f"Write an absolute path, such as {site.container.workdir}.",
        )
    for mount in edf.mounts:
        yield from _mount(mount, surroundings)


def _image(image: str) -> Iterator[Finding]:
    if not image:
        yield Finding(
            "edf-no-image",
            Severity.ERROR,
            "image is empty: the job would run without a container.",
            "Name an image, or the path of a squashed one.",
        )
        return
    first, slash, _ = image.partition("/")
    if image.startswith((*_PATH_STARTS, _UNKNOWN)):
        return
    if "://" in image:
        yield Finding(
            "edf-image-url",
            Severity.ERROR,
            f"image: {image} is a URL, as enroot import wants it; an EDF names [USER@][REGISTRY#]IMAGE[:TAG].",
            "Leave the part up to :// out.",
        )
    elif slash and "#" not in first and ("." in first or ":" in first or first.split("@")[-1] == "localhost"):
        yield Finding(
            "edf-image-registry",
            Severity.ERROR,
            f"image: {image} has its registry before a slash, where it is taken for a part of the image's name.",
            f"Write {first}#{image.partition('/')[2]}.",
        )


def _entrypoint(edf: Edf) -> Iterator[Finding]:
    if edf.entrypoint is None:
        yield Finding(
            "edf-entrypoint-unsaid",
            Severity.NOTE,
            "entrypoint is not said, and its default was described both ways.",
            "Write entrypoint = false.",
        )
    elif edf.entrypoint:
        yield Finding(
            "edf-entrypoint",
            Severity.WARNING,
            "entrypoint is true: it is started once per node with a shell that stops itself, and the tasks join its "
            "container beside it; it supervises none of them.",
            "Write entrypoint = false, and let srun start supervise.",
        )


def _mount(mount: str, surroundings: Surroundings) -> Iterator[Finding]:
    fields = mount.split(":")
    source = fields[0]
    destination = fields[1] if len(fields) > 1 else source
    if not all(fields) or len(fields) > _MOST_FIELDS or not _is_absolute(destination):
        yield Finding(
            "edf-mount",
            Severity.ERROR,
            f"mounts: {mount!r} is not SOURCE:DESTINATION[:FLAGS] with an absolute destination.",
            "Separate the fields with colons, and flags among themselves with +.",
        )
        return
    if not source.startswith((*_PATH_STARTS, _UNKNOWN)):
        yield Finding(
            "edf-relative-path",
            Severity.ERROR,
            f"mounts: {source} is no path; a relative one begins with ./.",
            "Write an absolute path.",
        )
    if len(fields) == 1:
        yield Finding(
            "edf-mount-destination",
            Severity.WARNING,
            f"mounts: {mount!r} names no destination, which not every release of the engine accepts.",
            f'Write "{mount}:{mount}".',
        )
    yield from _home(mount, source, destination, surroundings)
    yield from _hides_image(mount, destination)


def _home(mount: str, source: str, destination: str, surroundings: Surroundings) -> Iterator[Finding]:
    home = PurePosixPath(surroundings.home)
    over_home = source == "${HOME}" or any(
        path not in {PurePosixPath("/"), PurePosixPath()} and home.is_relative_to(path)
        for path in (PurePosixPath(source), PurePosixPath(destination))
    )
    if over_home:
        yield Finding(
            "edf-home-mounted",
            Severity.WARNING,
            f"mounts: {mount!r} brings HOME in: the settings and Python packages of the host get into the container.",
            "Mount the directories that are needed.",
        )


def _hides_image(mount: str, destination: str) -> Iterator[Finding]:
    place = PurePosixPath(destination)
    for tree in IMAGE_TREES:
        if PurePosixPath(tree).is_relative_to(place) or place == PurePosixPath(tree):
            yield Finding(
                "edf-mount-over-image",
                Severity.ERROR,
                f"mounts: {mount!r} hides {tree} of the image, where the engine or the supervisor lies.",
                "Mount it somewhere else.",
            )
            return


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", _UNKNOWN))
