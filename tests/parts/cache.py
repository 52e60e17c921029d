"""What is made once and kept outside of the tree: ``$SUPERVISE_PARTS_HOME``, by default ~/.cache/supervise-parts."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def parts_home() -> Path:
    """Return the directory, made where it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("SUPERVISE_PARTS_HOME") or cache / "supervise-parts").absolute()
    home.mkdir(parents=True, exist_ok=True)
    return home


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a file, made by the first who asks; whoever asks meanwhile waits.

    Args:
        name: The file's name, which changes with its recipe.
        make: Makes the file at the place it is given, in an empty directory that is removed afterwards.
    """
    home = parts_home()
    made = home / name
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            workshop = Path(tempfile.mkdtemp(dir=home))
            try:
                make(workshop / name)
                (workshop / name).replace(made)
            finally:
                shutil.rmtree(workshop)
    return made
