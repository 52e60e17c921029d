"""``supervise sbatch``: a complete batch script for a profile on a site."""

import os
import sys
from pathlib import Path

from entrypoint.batch.job import doubts, make_job
from entrypoint.batch.script import script
from entrypoint.cli.parse import Call
from entrypoint.cli.streams import complain
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings import profiles
from entrypoint.site.reading import read_site, site_here


def perform(call: Call) -> int:
    """Print or write the script; return 0."""
    options = call.options
    site = read_site(options.site) if options.site else site_here(os.environ)
    word = options.site or site.name
    job = make_job(profiles.read(options.profile), site, site_word=word, nodes=options.nodes, time=options.time)
    text = script(job)
    if options.output is None:
        sys.stdout.write(text)
    else:
        _write(options.output, text)
    for doubt in doubts(job):
        complain(f"supervise: {doubt}\n")
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    except OSError as error:
        raise SuperviseError(
            f"The script cannot be written to {path}: {error.strerror}.",
            remedy="Name a file in a directory that is there and can be written.",
            code=ExitCode.DIRECTORY_UNUSABLE,
        ) from error
