"""Reading sites: the packaged ones by name, one's own by its path."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

import tomli
from pydantic import ValidationError

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.site.site import Site

_SUFFIX = ".toml"
_DIRECTORY = Path(__file__).with_name("sites")


def site_names() -> tuple[str, ...]:
    """Return the names of the packaged sites, sorted."""
    return tuple(sorted(path.stem for path in _DIRECTORY.glob(f"*{_SUFFIX}")))


def read_site(name: str) -> Site:
    """Read a site.

    Args:
        name: Name of a packaged one, or the path of a file that ends in ``.toml``.

    Raises:
        SuperviseError: There is none, or it does not have the shape of one.
    """
    if not name.endswith(_SUFFIX) and name not in site_names():
        raise _unknown(name)
    path = Path(name).expanduser() if name.endswith(_SUFFIX) else _DIRECTORY / f"{name}{_SUFFIX}"
    try:
        document = tomli.loads(path.read_text(encoding="utf-8"))
        return Site.model_validate({"name": path.stem, **document})
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}"
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
    except ValueError as error:  # no TOML, or no text at all
        problem = str(error)
    raise SuperviseError(
        f"The site's file {path} is wrong: {problem}.",
        remedy="Write it like the packaged ones; docs/edf.md shows how.",
        code=ExitCode.CONFIGURATION,
    )


def site_here(environ: Mapping[str, str]) -> Site:
    """Return the packaged site that Slurm's variables name, or the only one that there is.

    Raises:
        SuperviseError: Several are packaged, and nothing says which one this is.
    """
    sites = [read_site(name) for name in site_names()]
    here = [site for site in sites if site.slurm.cluster == environ.get("SLURM_CLUSTER_NAME")] or sites
    if len(here) != 1:
        raise SuperviseError(
            "Nothing says which site this is for.",
            remedy=f"Give --site with one of {', '.join(site_names())}, or with a file.",
            code=ExitCode.USAGE,
        )
    return here[0]


def _unknown(name: str) -> SuperviseError:
    similar = get_close_matches(name, site_names(), n=1)
    guess = f"Did you mean {similar[0]!r}? " if similar else ""
    return SuperviseError(
        f"site: there is no packaged site {name!r}",
        remedy=f"{guess}The packaged sites are: {', '.join(site_names())}; one's own is a file that ends in .toml.",
        code=ExitCode.CONFIGURATION,
    )
