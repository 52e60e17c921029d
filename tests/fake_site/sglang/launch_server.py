"""The stand-in's main process; see ``tests/fake_engine.py``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fake_engine import main  # noqa: E402  # found through the line above

if __name__ == "__main__":
    main(sys.argv[1:])
