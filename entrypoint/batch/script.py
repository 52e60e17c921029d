"""The text of a batch script.

The template library takes a while to import, so that this module is imported only when a script is asked for.
"""

import shlex
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from entrypoint.batch.job import Job
from entrypoint.batch.time_limit import written
from entrypoint.outcome import ExitCode
from entrypoint.settings.texts import IMAGE_VARIABLE

_TEMPLATES = Path(__file__).with_name("templates")


def script(job: Job) -> str:
    """Return the text of a job's script."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701  # a shell's text; words of a user pass the filter below
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="<#",  # the usual one begins a length in bash
        comment_end_string="#>",
    )
    environment.filters["word"] = shlex.quote
    text: str = environment.get_template("job.sh.j2").render(
        job=job,
        site=job.site,
        profile=job.profile,
        slurm=job.site.slurm,
        time=written(job.minutes),
        image_variable=IMAGE_VARIABLE,
        configuration=int(ExitCode.CONFIGURATION),
        retry=int(ExitCode.RETRY_ELSEWHERE),
    )
    return text
